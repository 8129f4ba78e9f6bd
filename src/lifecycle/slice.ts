/** How much one call of a cleanup takes on: less where it keeps others waiting, more again where it does not. */
import type { System } from '../core/system.js';

const most = 500;
const least = 100;
const tooLongMs = 10;

export function createSlice(system: System) {
  let limit = most;
  return {
    async measure<T>(work: (limit: number) => Promise<T>): Promise<T> {
      const began = system.monotonic();
      const answer = await work(limit);
      const tookLong = system.monotonic() - began > tooLongMs;
      limit = tookLong ? Math.max(least, Math.floor(limit / 2)) : Math.min(most, limit + least);
      return answer;
    },
  };
}
