/** What is claimed beyond the free slots: how much, and in which order it begins. */
import type { Run } from './run.js';

/**
 * Only work that is measured to be short is claimed ahead, at most about fifty milliseconds of it, so that no job waits
 * here while another worker is idle.
 */
const workMs = 50;
const shortJobMs = 5;
const samplesMin = 20;
const aheadMax = 1_000;
/** What has not begun by then goes back. */
export const aheadWaitMaxMs = 100;
/** Of many short jobs, one in so many is measured. */
const measuredEvery = 8;

export interface AheadMeter {
  /** Whether the job that begins now should be measured. */
  wants(): boolean;
  ran(ms: number): void;
  /** What was claimed ahead had to wait: stop until new measurements say otherwise. */
  waitedTooLong(): void;
  readonly target: number;
}

export function aheadMeter(concurrency: number): AheadMeter {
  let begun = 0;
  let samples = 0;
  let averageMs = 0;
  let target = 0;
  return {
    wants: () => target === 0 || ++begun % measuredEvery === 0,
    ran(ms) {
      samples += 1;
      averageMs = samples === 1 ? ms : averageMs * 0.95 + ms * 0.05;
      target =
        samples < samplesMin || averageMs > shortJobMs
          ? 0
          : Math.min(aheadMax, Math.ceil((concurrency * workMs) / Math.max(averageMs, 0.05)));
    },
    waitedTooLong() {
      samples = 0;
      target = 0;
    },
    get target() {
      return target;
    },
  };
}

/** Jobs that wait for a slot, first in, first out. */
export class AheadLine {
  #runs: Run[] = [];
  #first = 0;

  get length(): number {
    return this.#runs.length - this.#first;
  }

  get first(): Run | undefined {
    return this.#runs[this.#first];
  }

  push(run: Run): void {
    this.#runs.push(run);
  }

  shift(): Run | undefined {
    const run = this.#runs[this.#first];
    if (run) this.#first += 1;
    if (this.#first === this.#runs.length) this.takeAll();
    return run;
  }

  remove(run: Run): boolean {
    const at = this.#runs.indexOf(run, this.#first);
    if (at >= 0) this.#runs.splice(at, 1);
    return at >= 0;
  }

  takeAll(): Run[] {
    const runs = this.#runs.slice(this.#first);
    this.#runs = [];
    this.#first = 0;
    return runs;
  }
}
