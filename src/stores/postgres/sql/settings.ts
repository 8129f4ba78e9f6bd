/**
 * How the functions that are called from outside are planned: once per session, along indices, whatever the statistics say.
 * Joins stand in the order in which they are to be made. Where two tables could still change places, and with them the order of
 * what comes out, the second one is a lateral query with `offset 0`, which the planner leaves as it is.
 */
export const settings = `
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set jit = off`;

/** For functions that only read along an index in its order: where few rows are expected, another one and a sort would seem as cheap. */
export const ordered = 'set enable_sort = off';

/**
 * Whether a column has this name, found by an index of hashes: with keys of a fixed width, and no texts to compare, an entry costs
 * half as much. Types that share a hash, of 32 bits, are only read over; queues that did, of 63 bits, would hide one another.
 */
export const isType = (column: string, type: string): string =>
  `hashtext(${column}) = hashtext(${type}) and ${column} = ${type}`;
export const queueHash = (queue: string): string => `(hashtextextended(${queue}, 0) >> 1)`;
/** One bit less than the whole leaves room for bounds. */
export const hashBounds = { below: '(-9223372036854775807)', above: '9223372036854775807' } as const;
export const isQueue = (column: string, queue: string): string =>
  `${queueHash(column)} = ${queueHash(queue)} and ${column} = ${queue}`;

/** The store's clock, read once: the given instant, or the server's at the start of the statement. */
export const now = `coalesce(p_now, floor(extract(epoch from statement_timestamp()) * 1000)::bigint)`;

/**
 * The first statement of each function that is called from outside and looks more than once: a snapshot that stays the same would
 * hide from it what others have committed meanwhile, and counts would go wrong for good. The caller then begins the transaction
 * itself, read committed (run.ts).
 */
export const readCommitted = (
  also = '',
): string => `if current_setting('transaction_isolation') <> 'read committed'${also} then
    raise exception 'this transaction is not read committed' using errcode = 'LO003';
  end if;`;
