/** The verbs of a store, for what stands between a queue and its store in tests. */
export const verbs = [
  'insert',
  'claim',
  'extend',
  'settle',
  'sweep',
  'move',
  'pause',
  'find',
  'tally',
  'read',
  'note',
] as const;
