/**
 * How many jobs of a queue may start now. What runs is counted from the living claims, never kept as a number, so that a
 * crash leaks no slot. What started is kept for one window of the rate, as [from, at, n, aheadAt] in \`limits.starts\`, in a
 * bounded number of parts. Who claims from a limited queue locks its row first, so that two claims never count the same.
 */
import { readCommitted } from './settings.js';

/** A start may count for up to this part of a window longer than it must: the price of a bounded record. */
const partsPerWindow = 50;

export const limits = (s: string): string => `
-- slots null: no limit on what runs. starts: those that still count, oldest first. clock_set: what the clock, set back or
-- right again, makes of them is to be written down.
create type ${s}.allowance as (
  queue text, slots bigint, rate_max bigint, rate_per_ms bigint, starts jsonb, clock_set boolean, room bigint
);

-- Of the queues in question (null: all), those whose starts are limited.
create function ${s}.allowances(p_now bigint, p_floor bigint, p_queues text[], p_locked boolean)
returns setof ${s}.allowance language plpgsql as $$
declare
  l ${s}.limits;
  v_kept jsonb;
  a ${s}.allowance;
begin
  for l in
    select x.* from ${s}.limits x where (p_queues is null or x.queue = any(p_queues))
      and (x.concurrency is not null or x.rate_max is not null) order by x.queue
  loop
    if p_locked then select x.* into l from ${s}.limits x where x.queue = l.queue for update; end if;
    a.queue := l.queue;
    a.slots := case when l.concurrency is not null then l.concurrency - ${s}.running_in(l.queue, p_floor) end;
    a.rate_max := l.rate_max;
    a.rate_per_ms := l.rate_per_ms;
    v_kept := case when l.rate_max is null then '[]' else coalesce(l.starts, '[]') end;
    a.starts := ${s}.starts_seen(p_now, v_kept);
    a.clock_set := a.starts <> v_kept;
    select coalesce(jsonb_agg(t.part order by t.o), '[]') into a.starts
    from jsonb_array_elements(a.starts) with ordinality t(part, o)
    where coalesce(t.part ->> 3, t.part ->> 1)::bigint + l.rate_per_ms > p_now;
    a.room := greatest(0, least(a.slots, l.rate_max
      - (select coalesce(sum((t.part ->> 2)::bigint), 0) from jsonb_array_elements(a.starts) t(part))));
    return next a;
  end loop;
end $$;

-- Starts are in the future after the clock was set back. Their instants are kept, for when it is right again; they count
-- from when they were first seen there.
create function ${s}.starts_seen(p_now bigint, p_starts jsonb) returns jsonb language plpgsql immutable as $$
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_array(t.part -> 0, t.part -> 1, t.part -> 2,
      case when (t.part ->> 1)::bigint > p_now then least((t.part ->> 3)::bigint, p_now) end) order by t.o), '[]')
    from jsonb_array_elements(p_starts) with ordinality t(part, o));
end $$;

-- A job may be named by a claim that it has left since; held is what lives and stands nowhere.
create function ${s}.running_in(p_queue text, p_floor bigint) returns bigint language plpgsql as $$
begin
  return (
    select count(*) from (
      select distinct h.seq from ${s}.claims c cross join lateral unnest(c.seqs) h(seq)
      where c.due_at > p_floor and p_queue = any(c.queues)
    ) h cross join lateral (select j.seq, j.type, j.queue from ${s}.jobs j where j.seq = h.seq offset 0) b
    where b.queue = p_queue and not exists (select 1 from ${s}.pending p where p.type = b.type and p.seq = b.seq offset 0)
      and not exists (select 1 from ${s}.done d where d.seq = b.seq offset 0));
end $$;

-- When the rate lets a job start again; null: it does now.
create function ${s}.opens_at(p_starts jsonb, p_max bigint, p_per_ms bigint) returns bigint language plpgsql immutable as $$
begin
  return (
    select min(w.counts_from) + p_per_ms from (
      select coalesce(t.part ->> 3, t.part ->> 1)::bigint as counts_from,
        sum((t.part ->> 2)::bigint) over () as total,
        sum((t.part ->> 2)::bigint) over (order by coalesce(t.part ->> 3, t.part ->> 1)::bigint, t.o) as gone
      from jsonb_array_elements(p_starts) with ordinality t(part, o)
    ) w where w.total >= p_max and w.total - w.gone < p_max);
end $$;

-- Writes down what a claim starts: p_n jobs of this queue. The starts that count from then on.
create function ${s}.charge(p_now bigint, a ${s}.allowance, p_n bigint) returns jsonb language plpgsql as $$
declare
  v_starts jsonb := a.starts;
begin
  if a.rate_max is null or (p_n = 0 and not a.clock_set) then return v_starts; end if;
  if p_n > 0 then v_starts := ${s}.with_starts(a.starts, p_now, p_n, a.rate_max, a.rate_per_ms); end if;
  update ${s}.limits l set starts = v_starts where l.queue = a.queue;
  return v_starts;
end $$;

-- Dated by its last start, a part never counts too short; a rate of few starts needs no parts.
create function ${s}.with_starts(p_starts jsonb, p_now bigint, p_n bigint, p_max bigint, p_per_ms bigint) returns jsonb
language plpgsql immutable as $$
declare
  v_past jsonb;
  v_ahead jsonb;
  v_last jsonb;
  v_part float8 := case when p_max <= ${partsPerWindow} then 0 else p_per_ms::float8 / ${partsPerWindow} end;
begin
  select coalesce(jsonb_agg(t.part order by t.o) filter (where (t.part ->> 1)::bigint <= p_now), '[]'),
    coalesce(jsonb_agg(t.part order by t.o) filter (where (t.part ->> 1)::bigint > p_now), '[]')
  into v_past, v_ahead from jsonb_array_elements(p_starts) with ordinality t(part, o);
  v_last := v_past -> -1;
  if v_last is null or p_now - (v_last ->> 0)::bigint > v_part then
    return v_past || jsonb_build_array(jsonb_build_array(p_now, p_now, p_n, null)) || v_ahead;
  end if;
  return (v_past - (jsonb_array_length(v_past) - 1))
    || jsonb_build_array(jsonb_build_array(v_last -> 0, p_now, (v_last ->> 2)::bigint + p_n, null)) || v_ahead;
end $$;

-- Limits hold for every process from the moment one of them is opened with them. p_limits: [{queue, max_pending, …}, …].
create function ${s}.limits_v1(p_sender text, p_limits text) returns table (changed boolean) language plpgsql as $$
declare
  l ${s}.limits;
begin
  ${readCommitted()}
  changed := false;
  for l in select x.* from json_populate_recordset(null::${s}.limits, p_limits::json) x order by x.queue collate "C" loop
    continue when exists (select 1 from ${s}.limits k where k.queue = l.queue
      and (k.max_pending, k.concurrency, k.rate_max, k.rate_per_ms)
        is not distinct from (l.max_pending, l.concurrency, l.rate_max, l.rate_per_ms));
    if coalesce(l.max_pending, l.concurrency, l.rate_max) is null then
      delete from ${s}.limits k where k.queue = l.queue;
      changed := changed or found;
    else
      insert into ${s}.limits as k values (l.*)
      on conflict (queue) do update set max_pending = excluded.max_pending, concurrency = excluded.concurrency,
        rate_max = excluded.rate_max, rate_per_ms = excluded.rate_per_ms,
        starts = case when excluded.rate_max is null then null else k.starts end;
      changed := true;
    end if;
  end loop;
  if changed then perform ${s}.notify(p_sender, 'r:*'); end if;
  return next;
end $$;
`;
