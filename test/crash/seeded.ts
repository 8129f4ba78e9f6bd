export interface Seeded {
  /** A whole number from 0, less than `n`. */
  below(n: number): number;
}

/** Chance that can be had again (mulberry32). What the processes make of it is up to the machine. */
export function seeded(seed: number): Seeded {
  let state = seed >>> 0;
  return {
    below(n) {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) % n;
    },
  };
}
