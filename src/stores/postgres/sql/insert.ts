/** Insert, one job after the other: idempotent ids, deduplication and the new row. */
import { attributes, keptTexts, named, typed } from './columns.js';

/** Jobs that a replace may end in one call. */
const endedMax = 1_000;

export const insert = (s: string): string => `
-- A job on its way in. o: its place in the call; seq: its number; flags, long: see the table of jobs. under_epoch, under_owner: the
-- claim that must hold the job under_id (null, from processes of 0.1.0: its owner).
create type ${s}.new_job as (
  ${typed(attributes)}
);
-- outcome: created, skipped, coalesced, existing, replaced (id: of the new one; other: of the old one), conflict, full; or
-- the code of a refusal for want of an owner.
create type ${s}.inserted as (outcome text, id text, other text);

-- An instant in the past is due now.
create function ${s}.instant(p_now bigint, p_in_ms bigint, p_at bigint) returns bigint language sql immutable as $$
  select case when p_in_ms is not null then p_now + p_in_ms else greatest(p_at, p_now) end
$$;

-- p_room: one more job may wait in its queue. Never raises: a refusal is an answer, and then nothing has happened.
create function ${s}.insert_one(
  p_step bigint, p_now bigint, n ${s}.new_job, p_retry_of text, p_room boolean, p_inside boolean
) returns ${s}.inserted language plpgsql as $$
declare
  a ${s}.inserted;
begin
  -- Others may be at the same slot or id: then what is met is looked at anew.
  loop
    a := ${s}.known_answer(n);
    if a.outcome is null and n.dedup <> 'none' then
      a := ${s}.deduplicate(p_step, p_now, n, p_room, p_inside);
    elsif a.outcome is null and not p_room then
      a := row('full', n.id, null)::${s}.inserted;
    end if;
    if a.outcome is not null and a.outcome not in ('again', 'replaced') then return a; end if;
    if a.outcome is distinct from 'again' and ${s}.create_job(p_step, p_now, n, p_retry_of, p_inside) then
      return row(coalesce(a.outcome, 'created'), n.id, a.other)::${s}.inserted;
    end if;
  end loop;
end $$;

-- An id that the library made names one job for ever: if it is known, this call comes again, or comes late.
create function ${s}.known_answer(n ${s}.new_job) returns ${s}.inserted language plpgsql as $$
declare
  v_type text;
  v_print text;
  v_input text;
  v_same boolean;
begin
  select b.type, b.print, b.input into v_type, v_print, v_input from ${s}.jobs b where b.id = n.id;
  if not found then
    select t.type, t.print into v_type, v_print from ${s}.tombs t where t.id = n.id;
    if not found then return null; end if;
    v_same := v_print = case when v_print like 'md5:%' then ${s}.tomb_print(n.type, n.input) else n.print end;
  elsif n.given then
    v_same := case when v_print is null then v_type = n.type and ${s}.same_input(v_input, n.input) else v_print = n.print end;
  end if;
  return row(case when n.given and not v_same then 'conflict' else 'existing' end, n.id, null)::${s}.inserted;
end $$;

-- A job whose id nobody chose has no print; its tombstone is compared by the very text.
create function ${s}.tomb_print(p_type text, p_input text) returns text language sql immutable as $$
  select 'md5:' || md5(p_type || ' ' || p_input)
$$;

-- Whatever the order of their keys.
create function ${s}.same_input(a text, b text) returns boolean language plpgsql immutable as $$
begin
  return a = b or (a not like '~:%' and b not like '~:%' and a::jsonb = b::jsonb);
exception when others then return false;
end $$;

-- Null: no job stands in the way, insert one. 'again': another step got in between.
create function ${s}.deduplicate(p_step bigint, p_now bigint, n ${s}.new_job, p_room boolean, p_inside boolean)
returns ${s}.inserted language plpgsql as $$
declare
  m ${s}.match;
  j ${s}.jobs;
  v_again bigint := case when n.dedup = 'skip' then ${s}.again_match(n.type, n.key) end;
  v_below bigint := 9223372036854775807;
  v_running bigint;
  v_late bigint[] := '{}';
begin
  loop
    m := ${s}.pending_matches(n.type, n.key, v_below);
    exit when m.seq is null or m.expires_at is null or m.expires_at > p_now or v_again > m.seq;
    v_late := v_late || m.seq;
    v_below := m.seq;
  end loop;
  if n.dedup = 'coalesce' and m.seq is null then v_running := ${s}.running_match(n.type, n.key); end if;
  -- A job that is refused changes nothing.
  if not p_room and coalesce(m.seq, v_again, v_running) is null then return row('full', n.id, null)::${s}.inserted; end if;
  if n.dedup <> 'replace' or m.seq is null then
    for j in
      select (b.job).* from unnest(v_late) x(seq)
      cross join lateral (select k as job from ${s}.jobs k where k.seq = x.seq offset 0) b
    loop
      perform ${s}.expire(p_step, p_now, j, p_inside);
    end loop;
  end if;
  if n.dedup = 'replace' and m.seq is not null then return ${s}.replace_all(p_step, p_now, n, p_room, p_inside); end if;
  if v_again is not null and (m.seq is null or v_again > m.seq) then
    if p_inside and ${s}.hold(v_again, 0) is null then return row('again', null, null)::${s}.inserted; end if;
    return row('skipped', (select b.id from ${s}.jobs b where b.seq = v_again), null)::${s}.inserted;
  end if;
  if m.seq is not null then
    select b.* into j from ${s}.jobs b where b.seq = m.seq;
    if not found then return row('again', null, null)::${s}.inserted; end if;
    if n.dedup = 'coalesce' then return ${s}.pull_to(p_step, p_now, j, n, p_inside); end if;
    if p_inside then
      -- What is decided holds until the caller's transaction ends: nobody claims this job before.
      perform 1 from ${s}.pending p where p.type = n.type and p.seq = m.seq for share;
      if not found then return row('again', null, null)::${s}.inserted; end if;
    end if;
    return row('skipped', j.id, null)::${s}.inserted;
  end if;
  if v_running is not null then return ${s}.mark_again(p_now, v_running, n); end if;
  return null;
end $$;

create function ${s}.pull_to(p_step bigint, p_now bigint, j ${s}.jobs, n ${s}.new_job, p_inside boolean)
returns ${s}.inserted language plpgsql as $$
declare
  v_left int := ${s}.leave_place(p_step, j, p_now, p_inside);
  v_place int;
begin
  if v_left is null then return row('again', null, null)::${s}.inserted; end if;
  j.due_at := ${s}.instant(p_now, n.in_ms, n.at);
  if j.ttl_ms is not null then j.expires_at := p_now + j.ttl_ms; end if;
  update ${s}.jobs b set due_at = j.due_at, expires_at = j.expires_at where b.seq = j.seq;
  v_place := ${s}.stand(p_step, j, p_now, p_inside);
  if v_place is null then raise exception 'the slot of a job was taken from it' using errcode = '40001'; end if;
  insert into ${s}.events (step, at, type, queue, delayed, ready, later_at)
  values (p_step, p_now, j.type, j.queue, (v_place = 1)::int - (v_left = 1)::int, v_place <> 1,
    case when v_place = 1 then j.due_at end);
  return row('coalesced', j.id, null)::${s}.inserted;
end $$;

-- The event has a ttl of its own, also where the run it waits for is handed back or lapses.
create function ${s}.mark_again(p_now bigint, p_seq bigint, n ${s}.new_job) returns ${s}.inserted language plpgsql as $$
declare
  v_id text;
begin
  if ${s}.hold(p_seq, (select b.epoch from ${s}.jobs b where b.seq = p_seq)) is null then
    return row('again', null, null)::${s}.inserted;
  end if;
  update ${s}.jobs b set again_at = ${s}.instant(p_now, n.in_ms, n.at),
    expires_at = case when b.ttl_ms is null then b.expires_at else p_now + b.ttl_ms end, flags = b.flags | 4
  where b.seq = p_seq and b.cancel_at is null returning b.id into v_id;
  return case when v_id is null then row('again', null, null)::${s}.inserted else row('coalesced', v_id, null)::${s}.inserted end;
end $$;

-- All that wait go, the newest first. Where it takes the place of one in its queue, it needs no room.
create function ${s}.replace_all(p_step bigint, p_now bigint, n ${s}.new_job, p_room boolean, p_inside boolean)
returns ${s}.inserted language plpgsql as $$
declare
  v_below bigint := 9223372036854775807;
  v_replaced text;
  v_fits boolean := p_room;
  v_expired boolean;
  m ${s}.match;
  j ${s}.jobs;
begin
  while not v_fits loop
    m := ${s}.pending_matches(n.type, n.key, v_below);
    exit when m.seq is null;
    v_below := m.seq;
    v_fits := (m.expires_at is null or m.expires_at > p_now)
      and (select b.queue = n.queue from ${s}.jobs b where b.seq = m.seq);
  end loop;
  if not v_fits then return row('full', n.id, null)::${s}.inserted; end if;
  v_below := 9223372036854775807;
  loop
    m := ${s}.pending_matches(n.type, n.key, v_below);
    exit when m.seq is null;
    v_below := m.seq;
    select b.* into j from ${s}.jobs b where b.seq = m.seq;
    v_expired := m.expires_at <= p_now;
    if v_expired then
      perform ${s}.expire(p_step, p_now, j, p_inside);
    elsif ${s}.end_pending(p_step, p_now, j, 1, 'REPLACED', 'Replaced by newer job', p_now, p_inside) then
      v_replaced := coalesce(v_replaced, j.id);
    else
      -- It may only stand elsewhere by now: it is looked at again.
      v_below := m.seq + 1;
    end if;
  end loop;
  return case when v_replaced is null then row('again', null, null)::${s}.inserted
    else row('replaced', n.id, v_replaced)::${s}.inserted end;
end $$;

-- A replace may meet every pending job of its type. Where they are more than a call may end, all but the newest are ended part
-- by part, before the replace itself, and the caller comes again: true. p_inside: as for insert_one.
-- p_queue: only if the newest stands there, because then it is certain that the new one is not refused for want of room.
create function ${s}.end_most(p_step bigint, p_now bigint, n ${s}.new_job, p_queue text, p_inside boolean)
returns boolean language plpgsql as $$
declare
  v_below bigint := 9223372036854775807;
  v_newest bigint;
  v_ended int := 0;
  m ${s}.match;
  j ${s}.jobs;
begin
  if not ${s}.has_more_matches(n.type, n.key, ${endedMax}) or (${s}.known_answer(n)).outcome is not null then
    return false;
  end if;
  while v_ended < ${endedMax} loop
    m := ${s}.pending_matches(n.type, n.key, v_below);
    exit when m.seq is null;
    v_below := m.seq;
    select b.* into j from ${s}.jobs b where b.seq = m.seq;
    if m.expires_at <= p_now then
      perform ${s}.expire(p_step, p_now, j, p_inside);
    elsif v_newest is null then
      if j.queue <> p_queue then return false; end if;
      v_newest := m.seq;
      continue;
    else
      perform ${s}.end_pending(p_step, p_now, j, 1, 'REPLACED', 'Replaced by newer job', p_now, p_inside);
    end if;
    v_ended := v_ended + 1;
  end loop;
  return true;
end $$;

-- False: another step has stored its id or taken its slot, and nothing has happened.
create function ${s}.create_job(p_step bigint, p_now bigint, n ${s}.new_job, p_retry_of text, p_inside boolean)
returns boolean language plpgsql as $$
declare
  j ${s}.jobs;
  v_place int;
begin
  insert into ${s}.jobs (seq, created_at, due_at, priority, max_attempts, policy, flags, id, type, queue, input, long,
    ttl_ms, expires_at, slot, retry_of, ${named(keptTexts)})
  values (n.seq, p_now, ${s}.instant(p_now, n.in_ms, n.at), n.priority, n.max_attempts, n.policy, n.flags, n.id, n.type,
    n.queue, n.input, n.long, n.ttl_ms, p_now + n.ttl_ms,
    case when n.dedup <> 'none' then coalesce(n.key, '') end, p_retry_of, ${named(keptTexts, 'n.')})
  on conflict (id) do nothing returning * into j;
  if j.seq is null then return false; end if;
  v_place := ${s}.stand(p_step, j, p_now, p_inside);
  if v_place is null then
    delete from ${s}.jobs b where b.seq = j.seq;
    return false;
  end if;
  insert into ${s}.events (step, at, name, type, queue, subject, ids, pending, delayed, ready, later_at, owned)
  values (p_step, p_now, 'created', j.type, j.queue, j.subject, j.id, 1, case when v_place = 1 then 1 end,
    v_place = 0 or (v_place = 2 and p_inside), case when v_place = 1 then j.due_at end,
    case when j.owned_by is not null then 1 end);
  return true;
end $$;
`;
