/**
 * Which finished jobs go: past their age, beyond the newest n of their own count rule, and the oldest above the cap, in this
 * order. What is held is no candidate. What an earlier rule takes is not looked at by a later one, so that a plan, which
 * removes nothing, finds the same jobs.
 */
import { isType, ordered } from './settings.js';

/** Whoever ends a job waits as long as the index waits for its table. */
const indexWaitMs = 500;

export const retention = (s: string): string => `
-- The cleanup policy. most: the cap; null: none.
create type ${s}.retention as (ms bigint, by_completion boolean, most bigint);

create function ${s}.is_over_age(d ${s}.done, p_now bigint, r ${s}.retention) returns boolean language sql immutable as $$
  select case when d.keep_ms is not null then coalesce(d.go_at < p_now, false)
    when r.by_completion then d.completed_at < p_now - r.ms else d.created_at < p_now - r.ms end
$$;

-- Oldest first; locked. p_past: what ended before this instant is looked for only where too few ended since: it has mostly
-- gone, and an index remembers what has gone until it is vacuumed.
create function ${s}.over_age(p_now bigint, r ${s}.retention, p_limit int, p_past bigint) returns bigint[]
language plpgsql ${ordered} as $$
declare
  v_own bigint[];
  v_other bigint[];
begin
  v_own := array(select d.seq from ${s}.done d where d.go_at < p_now and d.held_until is null
    order by d.go_at, d.seq limit p_limit for update skip locked);
  if r.by_completion then
    v_other := array(select d.seq from ${s}.done d
      where d.keep_ms is null and d.held_until is null and d.completed_at >= p_past and d.completed_at < p_now - r.ms
      order by d.completed_at, d.seq limit p_limit for update skip locked);
    if p_past > 0 and cardinality(v_other) < p_limit then return ${s}.over_age(p_now, r, p_limit, 0); end if;
  else
    v_other := array(select d.seq from ${s}.done d
      where d.keep_ms is null and d.held_until is null and d.created_at < p_now - r.ms
      order by d.created_at, d.seq limit p_limit for update skip locked);
  end if;
  -- The others are in that order unless they were found by their creation.
  if v_own = '{}' and r.by_completion then return v_other; end if;
  return array(select d.seq from unnest(v_own || v_other) x(seq)
    cross join lateral (select k.seq, k.completed_at from ${s}.done k where k.seq = x.seq offset 0) d
    order by d.completed_at, d.seq limit p_limit);
end $$;

-- The index serves a choice that few make, so it is made when the choice is first acted on, before the step has locked anything; who
-- may not make it, or meets a long transaction, reads more.
create function ${s}.index_creation() returns void language plpgsql set lock_timeout = '${indexWaitMs}' as $$
begin
  if to_regclass('${s}.done_created') is not null then return; end if;
  create index if not exists done_created on ${s}.done (created_at, seq) where keep_ms is null and held_until is null;
exception when insufficient_privilege or lock_not_available then null;
end $$;

-- The next group, of a type and a state, in which a job has a count rule, and the least such rule.
create function ${s}.next_group(p_type text, p_state int, out type text, out state int, out fewest int)
language plpgsql stable ${ordered} as $$
begin
  select d.type, d.state, d.keep_count into next_group.type, next_group.state, next_group.fewest from ${s}.done d
  where d.keep_count is not null and d.held_until is null and (d.type, d.state) > (p_type, p_state)
  order by d.type, d.state, d.keep_count limit 1;
end $$;

-- Of one group, oldest first.
create function ${s}.over_count_of(p_now bigint, r ${s}.retention, p_type text, p_state int, p_least int, p_limit int)
returns bigint[] language plpgsql stable as $$
begin
  if (select count(*) from (
    select 1 from ${s}.jobs b cross join lateral (select e.state from ${s}.done e where e.seq = b.seq offset 0) d
    where ${isType('b.type', 'p_type')} and d.state = p_state limit p_least + 1
  ) n) <= p_least then return '{}'; end if;
  return array(
    select x.seq from (
      select d.seq, d.completed_at, d.keep_count, row_number() over (order by d.completed_at desc, d.seq desc) as rank
      from ${s}.jobs b cross join lateral (select e as row, e.seq, e.completed_at, e.keep_count, e.state, e.held_until
        from ${s}.done e where e.seq = b.seq offset 0) d
      where ${isType('b.type', 'p_type')} and d.state = p_state and d.held_until is null and not ${s}.is_over_age(d.row, p_now, r)
    ) x where x.rank > x.keep_count order by x.completed_at, x.seq limit p_limit);
end $$;

-- Of all groups, oldest first. p_limit null: all.
create function ${s}.over_count(p_now bigint, r ${s}.retention, p_limit int) returns bigint[] language plpgsql stable as $$
declare
  v_type text := '';
  v_state int := -1;
  v_least int;
  v_seqs bigint[] := '{}';
begin
  loop
    select g.type, g.state, g.fewest into v_type, v_state, v_least from ${s}.next_group(v_type, v_state) g;
    exit when v_type is null;
    v_seqs := v_seqs || ${s}.over_count_of(p_now, r, v_type, v_state, v_least, p_limit);
  end loop;
  if p_limit is null then return v_seqs; end if;
  return array(select d.seq from unnest(v_seqs) x(seq)
    cross join lateral (select k.seq, k.completed_at from ${s}.done k where k.seq = x.seq offset 0) d
    order by d.completed_at, d.seq limit p_limit);
end $$;

-- The oldest finished jobs; locked.
create function ${s}.oldest_done(p_limit bigint) returns bigint[] language plpgsql ${ordered} as $$
begin
  if p_limit <= 0 then return '{}'; end if;
  return array(select x.seq from (
    select * from (select d.completed_at, d.seq from ${s}.done d
      where d.keep_ms is null and d.held_until is null
      order by d.completed_at, d.seq limit p_limit for update skip locked) a
    union all
    select * from (select d.completed_at, d.seq from ${s}.done d
      where d.keep_ms is not null and d.held_until is null
      order by d.completed_at, d.seq limit p_limit for update skip locked) b
  ) x order by x.completed_at, x.seq limit p_limit);
end $$;
`;
