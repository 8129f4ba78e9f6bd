/**
 * Move: changing jobs by hand. Each job is looked at and changed in the same step, and answered for by itself. What a job is
 * may change while we look at it: then it is looked at again.
 */
import { systemQueue } from '../../../core/names.js';
import { leavings } from './end.js';
import { now, readCommitted, settings } from './settings.js';

const lapse = leavings.indexOf('lapse');

export const move = (s: string): string => `
-- kind: cancel, condemn, remove, retry, reschedule, hold, unhold, defer, confirm, dismiss.
create type ${s}.move as (
  kind text, reason text, force boolean, new_ids text[], in_ms bigint, at bigint, priority int, until bigint, memo text,
  -- copies: by the id of a job the id and the input of its copy.
  under_epoch bigint, under_owner text, again boolean, failures_only boolean, copies jsonb
);

create function ${s}.move_v1(
  p_now bigint, p_sender text, p_cap bigint, p_filter text, p_below bigint, p_limit int, p_move text, p_dry boolean
) returns table (id text, outcome text, new_id text, next bigint, hints text) language plpgsql ${settings} as $$
declare
  v_now bigint := ${now};
  v_step bigint := case when not p_dry then ${s}.begin_step(false) end;
  t ${s}.found;
begin
  ${readCommitted()}
  t := ${s}.search(json_populate_record(null::${s}.filter, p_filter::json), p_below, p_limit, v_now);
  loop
    begin
      return query select x.id, x.outcome, x.other, t.next, null::text
        from ${s}.move_each(v_step, v_now, t.seqs, json_populate_record(null::${s}.move, p_move::json), p_dry) x;
      exit;
    exception when sqlstate 'LO004' then perform ${s}.await_claim(sqlerrm::bigint);
    end;
  end loop;
  next := t.next;
  if not p_dry then hints := ${s}.finish_step(v_step, v_now, p_sender, p_cap, false, null); end if;
  return next;
end $$;

-- p_step null: nothing is changed. Newest first, as others who change several jobs do.
create function ${s}.move_each(p_step bigint, p_now bigint, p_seqs bigint[], m ${s}.move, p_dry boolean)
returns setof ${s}.inserted language plpgsql as $$
declare
  v_used int := 0;
  v_new text;
  r ${s}.inserted;
  j ${s}.jobs;
begin
  if not p_dry and cardinality(p_seqs) > 1 then
    perform ${s}.lock_names('${s}.turns'::regclass, array(select b.type from unnest(p_seqs) x(seq)
      cross join lateral (select k.type from ${s}.jobs k where k.seq = x.seq offset 0) b));
  end if;
  for j in
    select b.* from unnest(p_seqs) with ordinality x(seq, o)
      cross join lateral (select k.* from ${s}.jobs k where k.seq = x.seq offset 0) b order by x.o
  loop
    r := (null, j.id, null);
    case m.kind
      when 'cancel' then r.outcome := ${s}.cancel(p_step, p_now, j.seq, m, p_dry);
      when 'condemn' then r.outcome := ${s}.condemn(p_step, p_now, j.seq, m, p_dry);
      when 'remove' then r.outcome := ${s}.remove(p_step, p_now, j.seq, m, p_dry);
      when 'reschedule' then r.outcome := ${s}.reschedule(p_step, p_now, j.seq, m, p_dry);
      when 'retry' then
        -- A new id that is known stands for a job that an earlier sending of this call has made.
        if m.copies is not null then
          v_new := m.copies -> j.id ->> 0;
          j.input := m.copies -> j.id ->> 1;
          if ${s}.is_used(v_new) then v_new := null; end if;
        end if;
        while v_new is null and m.copies is null and not p_dry and v_used < cardinality(m.new_ids) loop
          v_used := v_used + 1;
          v_new := m.new_ids[v_used];
          if ${s}.is_used(v_new) then v_new := null; end if;
        end loop;
        select x.outcome, x.id into r.outcome, r.other from ${s}.retry(p_step, p_now, j, m, p_dry, v_new) x;
        if r.other = v_new then v_new := null; end if;
      when 'confirm' then r.outcome := ${s}.confirm(p_step, p_now, j.seq, m, p_dry);
      when 'dismiss' then r.outcome := ${s}.dismiss(p_step, p_now, j.seq, m, p_dry);
      else r.outcome := ${s}.change_hold(p_now, j.seq, m, p_dry);
    end case;
    -- Gone since it was found, or passed over.
    continue when r.outcome is null;
    return next r;
  end loop;
  if not p_dry then perform ${s}.mend_noted(p_step, p_now); end if;
end $$;

-- Locks the claim that holds a job and shows it; null where none does any more.
create function ${s}.seize(j ${s}.jobs) returns ${s}.claims language plpgsql as $$
declare
  v_epoch bigint;
  c ${s}.claims;
begin
  select k.epoch into v_epoch from ${s}.claims k where j.seq = any(k.seqs) and k.epoch > j.epoch order by k.epoch desc limit 1;
  if not found then return null; end if;
  select k.* into c from ${s}.claims k where k.epoch = v_epoch for update skip locked;
  if not found then perform ${s}.step_back(v_epoch); end if;
  if exists (select 1 from ${s}.jobs b where b.seq = j.seq and b.epoch < c.epoch
    and not exists (select 1 from ${s}.done d where d.seq = b.seq offset 0)) then return c; end if;
  return null;
end $$;

create function ${s}.cancel(p_step bigint, p_now bigint, p_seq bigint, m ${s}.move, p_dry boolean) returns text
language plpgsql as $$
declare
  v_state text;
  -- A removal may come without one.
  v_reason text := coalesce(m.reason, 'Removed');
  j ${s}.jobs;
  c ${s}.claims;
begin
  loop
    select b.* into j from ${s}.jobs b where b.seq = p_seq;
    if not found then return 'already:cancelled'; end if;
    v_state := ${s}.state_of(j.seq, j.type, j.expires_at, p_now);
    if v_state not in ('pending', 'processing') then return 'already:' || v_state; end if;
    if v_state = 'pending' then
      if p_dry or ${s}.end_pending(p_step, p_now, j, 2, 'CANCELLED', v_reason, p_now, false) then return 'cancelled'; end if;
    elsif p_dry then
      return case when m.force then 'cancelled' else 'requested' end;
    elsif m.force then
      c := ${s}.seize(j);
      if c.epoch is not null then
        select b.* into j from ${s}.jobs b where b.seq = p_seq;
        perform ${s}.end_claimed(p_step, p_now, j, c, ${lapse}, 2, ${s}.error_text('CANCELLED', v_reason),
          ${s}.told_text('CANCELLED', v_reason), null);
        -- Its handler learns that it has lost the claim.
        insert into ${s}.events (step, at, cancel) values (p_step, p_now, true);
        return 'cancelled';
      end if;
    elsif ${s}.hold(j.seq, j.epoch) is not null then
      update ${s}.jobs b set cancel_at = p_now, cancel_reason = m.reason, flags = b.flags | 4
      where b.seq = p_seq and b.cancel_at is null;
      if found then insert into ${s}.events (step, at, cancel) values (p_step, p_now, true); end if;
      return 'requested';
    end if;
  end loop;
end $$;

create function ${s}.reschedule(p_step bigint, p_now bigint, p_seq bigint, m ${s}.move, p_dry boolean) returns text
language plpgsql as $$
declare
  j ${s}.jobs;
begin
  loop
    select b.* into j from ${s}.jobs b where b.seq = p_seq;
    if not found or ${s}.state_of(j.seq, j.type, j.expires_at, p_now) <> 'pending' then return 'not_pending'; end if;
    if p_dry or ${s}.stand_elsewhere(p_step, p_now, j, m) then return 'moved'; end if;
  end loop;
end $$;

-- A job that is not due and was not claimed yet: what it stands for is there, or stays longer.
create function ${s}.confirm(p_step bigint, p_now bigint, p_seq bigint, m ${s}.move, p_dry boolean) returns text
language plpgsql as $$
declare
  j ${s}.jobs;
begin
  loop
    select b.* into j from ${s}.jobs b where b.seq = p_seq;
    if not found or j.queue <> '${systemQueue}' or ${s}.state_of(j.seq, j.type, j.expires_at, p_now) <> 'pending' then
      return 'not_pending';
    end if;
    if j.due_at <= p_now or j.epoch > 0 then return 'stale'; end if;
    if m.under_epoch is not null and not coalesce(${s}.is_under(
      (select b.seq from ${s}.jobs b where b.id = j.owned_by), m.under_epoch, m.under_owner), false) then return 'stale'; end if;
    if p_dry or ${s}.stand_elsewhere(p_step, p_now, j, m) then return 'confirmed'; end if;
  end loop;
end $$;

-- A pending job gets another due_at, priority or memo. False: it is pending no more, or stands elsewhere since we looked.
create function ${s}.stand_elsewhere(p_step bigint, p_now bigint, j ${s}.jobs, m ${s}.move) returns boolean
language plpgsql as $$
declare
  v_left int := ${s}.leave_place(p_step, j, p_now, false);
  v_place int;
begin
  if v_left is null then return false; end if;
  select b.* into j from ${s}.jobs b where b.seq = j.seq;
  if m.in_ms is not null or m.at is not null then j.due_at := ${s}.instant(p_now, m.in_ms, m.at); end if;
  j.priority := coalesce(m.priority, j.priority);
  update ${s}.jobs b set due_at = j.due_at, priority = j.priority, memo = coalesce(m.memo, b.memo),
    flags = case when m.memo is null then b.flags else b.flags | 1 end
  where b.seq = j.seq;
  v_place := ${s}.stand(p_step, j, p_now, false);
  if v_place is null then raise exception 'the slot of a job was taken from it' using errcode = '40001'; end if;
  insert into ${s}.events (step, at, type, queue, delayed, ready, later_at)
  values (p_step, p_now, j.type, j.queue, (v_place = 1)::int - (v_left = 1)::int, v_place = 0,
    case when v_place = 1 then j.due_at end);
  return true;
end $$;
`;
