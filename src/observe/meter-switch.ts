/** The meters that everybody holds from the start. They lead nowhere until somebody asks for metrics. */
import { harmless } from '../core/harmless.js';
import { type Meters, noMeters } from '../core/meters.js';

export interface MeterSwitch extends Meters {
  turnOn(to: Meters): void;
}

/** `blame` hears what a metric throws: what is counted has happened, and goes on. */
export function meterSwitch(blame: (error: unknown) => void = () => undefined): MeterSwitch {
  let to = noMeters;
  return {
    get isOn() {
      return to.isOn !== false;
    },
    add: (name, n, labels) => harmless(() => to.add(name, n, labels), blame),
    took: (name, ms, labels) => harmless(() => to.took(name, ms, labels), blame),
    turnOn(meters) {
      to = meters;
    },
  };
}
