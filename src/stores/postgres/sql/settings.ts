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

/** The store's clock, read once: the given instant, or the server's at the start of the statement. */
export const now = `coalesce(p_now, floor(extract(epoch from statement_timestamp()) * 1000)::bigint)`;
