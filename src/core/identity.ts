/**
 * The identity of a store: made once, by chance, and kept with its jobs. What lives outside bears it in its name, so that no store takes
 * the things of another for its own. Beside it stands where the store was when it got its identity: a copy is somewhere else.
 */
import type { StoreWarning } from './store.js';

/** Twenty small letters and digits, like an id. */
export const identityPattern = /^[0-9a-z]{20}$/;

/** `from` and `here`: how the two places are told apart. */
export function copyWarning(where: string, from: string, here: string): StoreWarning {
  const message =
    `${where} has the identity of a store at another place (${from}; this is ${here}): it is a copy, or was moved. While the other ` +
    "one is in use, both end each other's leases: open this one once with { identity: 'new' }.";
  return { code: 'STORE_COPIED', message };
}
