/**
 * How much one call of a cleanup takes on, and how long it then steps aside. A part may take a millisecond, so that claims
 * hardly notice it even where everybody waits for it; or, where the call itself is dear, half as long again as the cheapest
 * one, but hardly more where it is the rows that are. Up to half of the time is everybody else's.
 */
import { pause, type System } from '../core/system.js';

const most = 500;
const first = 50;
const shortMs = 1;
const graceMs = 2;
const longestRestMs = 5;

/** `least`: smaller parts would only be more calls. */
export function createSlice(system: System, least: number, signal: AbortSignal) {
  let limit = first;
  let cheapestMs = Number.POSITIVE_INFINITY;
  let tookMs = 0;
  return {
    async measure<T>(work: (limit: number) => Promise<T>): Promise<T> {
      const began = system.monotonic();
      const answer = await work(limit);
      tookMs = system.monotonic() - began;
      cheapestMs = Math.min(cheapestMs, tookMs);
      const factor = Math.max(shortMs, cheapestMs + Math.min(graceMs, cheapestMs / 2)) / tookMs;
      limit = Math.round(Math.min(most, Math.max(least, limit * Math.min(2, Math.max(0.5, factor)))));
      return answer;
    },
    /** Between two parts everybody else has a turn; under a clock that stands still, no more than that. */
    async rest(): Promise<void> {
      if (tookMs > 0) await pause(system, Math.min(longestRestMs, tookMs), signal);
      else await new Promise<void>((resolve) => system.soon(resolve));
    },
  };
}
