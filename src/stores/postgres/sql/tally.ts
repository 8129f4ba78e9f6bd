/** Tally: the counts, and what they have yet to learn. One line of JSON per fact; tally.ts beside store.ts puts them together. */
import { now, queueHash, settings } from './settings.js';

export const tally = (s: string): string => `
create function ${s}.tally_v1(p_now bigint, p_retention_ms bigint, p_interval_ms bigint, p_by_completion boolean)
returns table (fact text, queue text, n bigint, a bigint, b bigint, c bigint, d bigint, e bigint, f bigint)
language plpgsql stable ${settings} as $$
declare
  v_now bigint := ${now};
  v_over bigint := v_now - p_interval_ms - p_retention_ms;
begin
  return query select 'at', null::text, v_now, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint;
  return query select 'paused', p.queue, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint
    from ${s}.paused p;
  return query select 'counts', t.queue, t.pending, t.delayed, t.processing, t.completed, t.failed, t.cancelled, t.expired
    from ${s}.sums t
    where (t.pending, t.delayed, t.processing, t.completed, t.failed, t.cancelled, t.expired) <> (0, 0, 0, 0, 0, 0, 0);
  return query select 'replaced', t.queue, t.replaced, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint
    from ${s}.sums t where t.replaced <> 0;
  return query select 'expired', p.queue, count(*), count(*) filter (where p.place = 1), null::bigint, null::bigint, null::bigint,
    null::bigint, null::bigint from ${s}.pending p where p.expires_at <= v_now group by p.queue;
  return query select 'due', p.queue, count(*), null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint
    from ${s}.pending p
    where p.place = 1 and p.due_at <= v_now and (p.expires_at is null or p.expires_at > v_now) group by p.queue;
  return query select 'stalled', j.queue, count(*), null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint
    from ${s}.claims k cross join lateral unnest(k.seqs) x(seq)
      cross join lateral (select b.seq, b.queue, b.epoch from ${s}.jobs b where b.seq = x.seq offset 0) j
    where k.due_at <= v_now and j.epoch < k.epoch and not exists (select 1 from ${s}.done o where o.seq = j.seq offset 0)
    group by j.queue;
  return query select 'oldest', o.queue, min(o.due_at), null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint
    from ${s}.oldest_due(v_now) o group by o.queue;
  return query select 'limits', l.queue, l.max_pending, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint
    from ${s}.limits l where l.max_pending is not null;
  return query select 'slots', x.queue, x.slots, ${s}.opens_at(x.starts, x.rate_max, x.rate_per_ms), null::bigint, null::bigint,
    null::bigint, null::bigint, null::bigint from ${s}.allowances(v_now, 0, null, false) x;
  return query select 'overdue', null::text, (select count(*) from ${s}.done o where o.go_at < v_now - p_interval_ms and o.held_until is null)
    + case when p_by_completion
      then (select count(*) from ${s}.done o where o.keep_ms is null and o.held_until is null and o.completed_at < v_over)
      else (select count(*) from ${s}.done o where o.keep_ms is null and o.held_until is null and o.created_at < v_over) end,
    null::bigint, null::bigint, null::bigint, null::bigint, null::bigint, null::bigint;
end $$;

create function ${s}.oldest_due(p_now bigint) returns table (queue text, due_at bigint) language plpgsql stable as $$
begin
  return query select l.queue, l.due_at from ${s}.due_lanes(p_now) l;
end $$;

-- The oldest due job per type, queue and priority, and those that were not promoted yet: read from the heads of the groups.
create function ${s}.due_lanes(p_now bigint) returns table (type text, queue text, due_at bigint) language plpgsql stable as $$
declare
  v_type bigint := -2147483649;
  v_queue bigint := 0;
  v_priority int := 0;
begin
  loop
    select p.type, p.queue, p.due_at, hashtext(p.type), ${queueHash('p.queue')}, p.priority
    into type, queue, due_at, v_type, v_queue, v_priority from ${s}.pending p
    where p.place = 0 and (hashtext(p.type), ${queueHash('p.queue')}, p.priority) > (v_type, v_queue, v_priority)
      and (p.expires_at is null or p.expires_at > p_now)
    order by hashtext(p.type), ${queueHash('p.queue')}, p.priority, p.due_at limit 1;
    exit when not found;
    return next;
  end loop;
  return query select p.type, p.queue, min(p.due_at) from ${s}.pending p
    where p.place = 1 and p.due_at <= p_now and (p.expires_at is null or p.expires_at > p_now) group by p.type, p.queue;
  return query select p.type, p.queue, min(p.due_at) from ${s}.pending p
    where p.place = 2 and (p.expires_at is null or p.expires_at > p_now) group by p.type, p.queue;
end $$;
`;
