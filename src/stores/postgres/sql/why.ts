/** Why a job is where it is, and what workers take. */
import { systemQueue } from '../../../core/names.js';
import { now, settings } from './settings.js';

export const why = (s: string): string => `
-- One line: of a job that is stored (job: see job_text) or of its tombstone (gone_at and so on). No line: never heard of it.
create function ${s}.read_why_v1(p_now bigint, p_id text) returns table (
  job text, gone_at bigint, gone_why text, gone_type text, gone_queue text, gone_state text, gone_reason text, place int, turn_of text,
  claim_owner text, claim_due bigint, owns bigint, paused boolean, slots bigint, opens_at bigint, workers bigint
) language plpgsql stable ${settings} as $$
declare
  v_now bigint := ${now};
  j ${s}.jobs;
  d ${s}.done;
  h ${s}.holder;
begin
  owns := 0;
  paused := false;
  workers := 0;
  select b.* into j from ${s}.jobs b where b.id = p_id;
  if j.seq is null then
    select t.at, t.why, t.type, t.queue, t.state, t.reason into gone_at, gone_why, gone_type, gone_queue, gone_state, gone_reason
    from ${s}.tombs t where t.id = p_id;
    if gone_at is not null then return next; end if;
    return;
  end if;
  select x.* into d from ${s}.done x where x.seq = j.seq;
  select p.place into place from ${s}.pending p where p.type = j.type and p.seq = j.seq;
  if d.seq is null and place is null then
    h := ${s}.holder_of(j);
    select c.owner, c.due_at into claim_owner, claim_due from ${s}.claims c where c.epoch = h.epoch;
  end if;
  job := ${s}.job_text(j, d, h, v_now);
  place := case when d.seq is not null then 4 when place is null then 3 else place end;
  if place = 2 then
    select b.id into turn_of from ${s}.jobs b
    where b.seq = (select t.seq from ${s}.turns t where t.type = j.type and t.queue = j.queue and t.xkey = j.xkey);
  end if;
  owns := ${s}.owns(p_id);
  paused := exists (select 1 from ${s}.paused p where p.queue = j.queue
    or (p.queue = '*' and j.queue <> '${systemQueue}' and not exists (select 1 from ${s}.paused a where a.queue = '+' || j.queue)));
  -- A lapsed claim holds no slot any more: the next claim brings it back first.
  select a.slots, ${s}.opens_at(a.starts, a.rate_max, a.rate_per_ms) into slots, opens_at
  from ${s}.allowances(v_now, v_now, array[j.queue], false) a;
  workers := (select count(*) from ${s}.workers w where w.due_at > v_now and w.concurrency > 0 and j.type = any(w.types)
    and (w.queues is null or j.queue = any(w.queues)));
  return next;
end $$;

create function ${s}.read_workers_v1(p_now bigint)
returns table (owner text, due_at bigint, concurrency int, name text, types text, queues text)
language plpgsql stable ${settings} as $$
declare
  v_now bigint := ${now};
begin
  return query select w.owner, w.due_at, w.concurrency, w.name, to_json(w.types)::text, to_json(w.queues)::text
    from ${s}.workers w where w.due_at > v_now order by w.owner;
end $$;
`;
