/**
 * How many jobs to claim beyond the free slots. Only work that is measured to be short is claimed ahead, at most about
 * fifty milliseconds of it, so that no job waits here while another worker is idle.
 */
const workMs = 50;
const shortJobMs = 5;
const samplesMin = 20;
const aheadMax = 500;

export interface AheadMeter {
  ran(ms: number): void;
  /** What was claimed ahead had to wait: stop until new measurements say otherwise. */
  waitedTooLong(): void;
  target(concurrency: number): number;
}

export function aheadMeter(): AheadMeter {
  let samples = 0;
  let averageMs = 0;
  return {
    ran(ms) {
      samples += 1;
      averageMs = samples === 1 ? ms : averageMs * 0.95 + ms * 0.05;
    },
    waitedTooLong() {
      samples = 0;
    },
    target(concurrency) {
      if (samples < samplesMin || averageMs > shortJobMs) return 0;
      return Math.min(aheadMax, Math.ceil((concurrency * workMs) / Math.max(averageMs, 0.1)));
    },
  };
}
