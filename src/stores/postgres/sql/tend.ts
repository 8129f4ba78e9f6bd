/**
 * Tending, which every claim does first: lapsed claims back, ttl expiry, and what became due. Each part is bounded; rows that
 * another step has are passed over. Keys whose turn is to be looked at are noted (place.ts).
 */
import { leavings } from './end.js';

const promotedMax = 1_000;
const lapsedMax = 20;
/** A claim holds up to a thousand jobs: no more than about so many come back in one step. */
const lapsedJobsMax = 2_000;
const expiredMax = 500;
const looseMax = 500;
const lapse = leavings.indexOf('lapse');

export const tend = (s: string): string => `
-- step: null where nothing was to be done.
create type ${s}.tended as (step bigint, lapsed int, expired int, more boolean);

-- What there is to do, in one look. later_at: when the next delayed job is due.
create type ${s}.state as (
  lapsed boolean, expired boolean, loose boolean, paused boolean, limited boolean, later_at bigint
);

create function ${s}.look_around(p_now bigint, p_floor bigint) returns ${s}.state language plpgsql as $$
begin
  return (
    select row(
      exists (select 1 from ${s}.claims c where c.due_at > p_floor and c.due_at <= p_now),
      exists (select 1 from ${s}.pending p where p.expires_at > p_floor and p.expires_at <= p_now),
      exists (select 1 from ${s}.loose), exists (select 1 from ${s}.paused),
      exists (select 1 from ${s}.limits l where l.concurrency is not null or l.rate_max is not null),
      (select p.due_at from ${s}.pending p where p.place = 1 and p.due_at > p_floor order by p.due_at limit 1))::${s}.state);
end $$;

create function ${s}.tend(p_step bigint, p_now bigint, p_floor bigint, w ${s}.state) returns ${s}.tended
language plpgsql as $$
declare
  v_due boolean := coalesce(w.later_at <= p_now, false);
  t ${s}.tended;
begin
  t := (p_step, 0, 0, false);
  if not (w.lapsed or w.expired or w.loose or v_due) then return t; end if;
  t.step := coalesce(p_step, ${s}.begin_step(false));
  if w.lapsed then t.lapsed := ${s}.lapse_claims(t.step, p_now, p_floor); end if;
  if w.expired then t.expired := ${s}.expire_due(t.step, p_now, p_floor); end if;
  if w.loose then perform ${s}.note_loose(t.step, p_now); end if;
  t.more := t.lapsed < 0 or t.expired = ${expiredMax};
  t.lapsed := abs(t.lapsed);
  if v_due then
    t.more := ${s}.promote(t.step, p_now, p_floor, ${promotedMax}) >= ${promotedMax} or t.more;
  end if;
  return t;
end $$;

-- How many came back; negative: there may be more.
create function ${s}.lapse_claims(p_step bigint, p_now bigint, p_floor bigint) returns int language plpgsql as $$
declare
  v_n int := 0;
  v_jobs int := 0;
  v_left bigint[] := '{}';
  c ${s}.claims;
  j ${s}.jobs;
begin
  while v_n < ${lapsedMax} and v_jobs < ${lapsedJobsMax} loop
    select k.* into c from ${s}.claims k where k.due_at > p_floor and k.due_at <= p_now and k.epoch <> all(v_left)
    order by k.due_at, k.epoch limit 1 for update skip locked;
    if not found then return v_n; end if;
    -- Its jobs go back to their slots: if somebody else is at those of their types, the next one brings them back.
    if not ${s}.try_names('${s}.turns'::regclass, array(select b.type from unnest(c.seqs) x(seq)
      cross join lateral (select k.type from ${s}.jobs k where k.seq = x.seq and k.slot is not null offset 0) b)) then
      v_left := v_left || c.epoch;
      continue;
    end if;
    v_n := v_n + 1;
    v_jobs := v_jobs + cardinality(c.seqs);
    for j in
      select b.* from unnest(c.seqs) with ordinality x(seq, o)
        cross join lateral (select k.* from ${s}.jobs k where k.seq = x.seq offset 0) b
      where b.epoch < c.epoch and not exists (select 1 from ${s}.done d where d.seq = b.seq offset 0) order by x.o
    loop
      perform ${s}.lapse_one(p_step, p_now, j, c);
    end loop;
    delete from ${s}.claims k where k.epoch = c.epoch;
    delete from ${s}.marked m where m.epoch = c.epoch;
  end loop;
  return -v_n;
end $$;

create function ${s}.lapse_one(p_step bigint, p_now bigint, j ${s}.jobs, c ${s}.claims) returns void language plpgsql as $$
declare
  v_told text;
begin
  insert into ${s}.events (step, at, name, type, queue, subject, ids)
  values (p_step, p_now, 'stalled', j.type, j.queue, j.subject, j.id);
  if j.cancel_at is not null then
    perform ${s}.end_claimed(p_step, p_now, j, c, ${lapse}, 2, ${s}.error_text('CANCELLED', j.cancel_reason),
      ${s}.told_text('CANCELLED', j.cancel_reason), null);
    return;
  end if;
  if ${s}.waits(c, j.seq) then
    j.wary := true;
    perform ${s}.back_to_pending(p_step, p_now, j, c, ${lapse}, j.due_at);
    return;
  end if;
  j.stalls := j.stalls + 1;
  if j.stalls >= c.max_stalls then
    v_told := 'Its worker went silent ' || j.stalls || case when j.stalls = 1 then ' time' else ' times' end || ' while it ran';
    perform ${s}.end_claimed(p_step, p_now, j, c, ${lapse}, 1, ${s}.error_text('STALLED', v_told),
      ${s}.told_text('STALLED', v_told), null);
    return;
  end if;
  perform ${s}.back_to_pending(p_step, p_now, j, c, ${lapse},
    case when j.stalls >= 2 then p_now + ${s}.parting_ms(j.id, j.stalls) else j.due_at end);
end $$;

-- As partingMs of core/policy.ts. Ids are ASCII.
create function ${s}.parting_ms(p_id text, p_stalls int) returns bigint language plpgsql immutable as $$
declare
  v_sum bigint := p_stalls;
begin
  for i in 1 .. length(p_id) loop
    v_sum := (v_sum * 31 + ascii(substr(p_id, i, 1))) % 1000003;
  end loop;
  return v_sum * 7919 % 1000003 % 30000;
end $$;

create function ${s}.expire_due(p_step bigint, p_now bigint, p_floor bigint) returns int language plpgsql as $$
declare
  v_n int := 0;
  j ${s}.jobs;
begin
  for j in
    select (b.job).* from (
      select p.seq from ${s}.pending p where p.expires_at > p_floor and p.expires_at <= p_now
      order by p.expires_at, p.seq limit ${expiredMax} for update skip locked
    ) x cross join lateral (select k as job from ${s}.jobs k where k.seq = x.seq offset 0) b
  loop
    perform ${s}.expire(p_step, p_now, j, false);
    v_n := v_n + 1;
  end loop;
  return v_n;
end $$;

-- Keys that were left to be looked at are noted for the end of the step.
create function ${s}.note_loose(p_step bigint, p_now bigint) returns void language plpgsql as $$
begin
  with gone as (
    delete from ${s}.loose l where l.ctid = any(array(select x.ctid from ${s}.loose x limit ${looseMax} for update skip locked))
    returning l.*
  )
  insert into ${s}.events (step, at, type, queue, xkey) select distinct p_step, p_now, g.type, g.queue, g.xkey from gone g;
end $$;
`;
