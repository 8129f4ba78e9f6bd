// What the run makes of its parts, and of what cannot be had.

/** @typedef {{ missing: 'platform' | 'network', why: string }} Missing */

/**
 * Where it must be there, only a machine that it was never made for may go without it.
 * @param {Missing} found
 * @param {boolean} isNeeded
 * @returns {{ result: 'skipped', why: string } | { result: 'failed', why: string, failed: 1 }}
 */
export function outcomeWithout({ missing, why }, isNeeded) {
  return missing === 'platform' || !isNeeded ? { result: 'skipped', why } : { result: 'failed', why, failed: 1 };
}

/** @param {readonly { result: string }[]} parts also services: of each, what stands in the table */
export function exitCodeOf(parts) {
  return parts.some(({ result }) => result === 'failed') ? 1 : 0;
}
