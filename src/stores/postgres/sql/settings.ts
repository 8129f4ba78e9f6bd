/**
 * How the functions that are called from outside are planned: once per session, along indices, whatever the statistics say.
 * Joins stand in the order in which they are to be made.
 */
export const settings = `
  set plan_cache_mode = force_generic_plan
  set enable_seqscan = off
  set enable_bitmapscan = off
  set enable_hashjoin = off
  set enable_mergejoin = off
  set join_collapse_limit = 1
  set jit = off`;

/** The store's clock, read once: the given instant, or the server's at the start of the statement. */
export const now = `coalesce(p_now, floor(extract(epoch from statement_timestamp()) * 1000)::bigint)`;
