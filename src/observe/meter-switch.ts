/** The meters that everybody holds from the start. They lead nowhere until somebody asks for metrics. */
import { type Meters, noMeters } from '../core/meters.js';

export interface MeterSwitch extends Meters {
  turnOn(to: Meters): void;
}

export function meterSwitch(): MeterSwitch {
  let to = noMeters;
  return {
    get isOn() {
      return to.isOn !== false;
    },
    add: (name, n, labels) => to.add(name, n, labels),
    took: (name, ms, labels) => to.took(name, ms, labels),
    turnOn(meters) {
      to = meters;
    },
  };
}
