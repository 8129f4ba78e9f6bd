/** The one door into a finished state, and the ways out of a claim. */

/** As they are stored: the position is the number. Add at the end only. */
export const states = ['completed', 'failed', 'cancelled', 'expired'] as const;
export const leavings = ['complete', 'retry', 'exhaust', 'fail', 'snooze', 'cancel', 'release', 'lapse'] as const;
const lapse = leavings.indexOf('lapse');
const release = leavings.indexOf('release');

export const end = (s: string): string => `
-- JSON of an error, as JSON.stringify writes it.
create function ${s}.error_text(p_code text, p_message text) returns text language sql stable as $$
  select '{"code":' || to_json(p_code)::text || ',"message":' || to_json(p_message)::text || '}'
$$;

-- Events are many and short-lived: a long message stays with the job. A coded one could not be decoded if it were cut.
create function ${s}.told_text(p_code text, p_message text) returns text language sql stable as $$
  select '{"message":' || to_json(case when length(p_message) > 200 and p_message not like '~:%'
    then left(p_message, 200) || '…' else p_message end)::text || ',"code":' || to_json(p_code)::text || '}'
$$;

create function ${s}.expiry(j ${s}.jobs) returns text language sql immutable as $$
  select 'Not started within its ttl of ' || j.ttl_ms::text || ' ms'
$$;

-- A pending job ends: cancelled, expired, replaced or superseded. False: it is pending no more, or stands elsewhere since we looked.
create function ${s}.end_pending(
  p_step bigint, p_now bigint, j ${s}.jobs, p_state int, p_code text, p_message text, p_at bigint, p_inside boolean
) returns boolean language plpgsql as $$
declare
  v_place int := ${s}.leave_place(p_step, j, p_now, p_inside);
begin
  if v_place is null then return false; end if;
  perform ${s}.enter(j, p_state, p_at, ${s}.error_text(p_code, p_message), null);
  insert into ${s}.events
    (step, at, name, type, queue, subject, ids, attempt, error, pending, delayed, failed, replaced, cancelled, expired, owned)
  values (p_step, p_now, case when p_code = 'REPLACED' then 'replaced' else ${stateName('p_state')} end, j.type, j.queue, j.subject, j.id, j.attempts,
    ${s}.told_text(p_code, p_message), -1, case when v_place = 1 then -1 end,
    case when p_state = 1 then 1 end, case when p_code = 'REPLACED' then 1 end, case when p_state = 2 then 1 end,
    case when p_state = 3 then 1 end, case when j.owned_by is not null then -1 end);
  return true;
end $$;

-- Ends a pending job that is past its ttl, at the instant it passed it: swept early or late, it reads the same. False: it is
-- pending no more, got a new ttl, or is being changed by another step, for which nobody waits.
create function ${s}.expire(p_step bigint, p_now bigint, j ${s}.jobs, p_inside boolean) returns boolean
language plpgsql as $$
begin
  perform 1 from ${s}.pending p where p.type = j.type and p.seq = j.seq and p.expires_at <= p_now
  for update skip locked;
  if not found then return false; end if;
  select b.* into j from ${s}.jobs b where b.seq = j.seq;
  return ${s}.end_pending(p_step, p_now, j, 3, 'EXPIRED', ${s}.expiry(j), j.expires_at, p_inside);
end $$;

-- Whether a job was claimed ahead and has not begun.
create function ${s}.waits(c ${s}.claims, p_seq bigint) returns boolean language plpgsql immutable as $$
declare
  v_place int := array_position(c.seqs, p_seq);
begin
  return v_place >= c.ahead and not v_place = any(c.begun);
end $$;

-- The claim is over for this job: its epoch becomes the job's, and no later word under it counts.
create function ${s}.leave_claim(j ${s}.jobs, c ${s}.claims, p_kind int) returns ${s}.jobs language plpgsql as $$
begin
  j."left" := p_kind;
  if c.epoch is null then return j; end if;
  j.epoch := c.epoch;
  -- A job that was claimed ahead has begun if its handler had a last word.
  if p_kind not in (${release}, ${lapse}) or not ${s}.waits(c, j.seq) then
    j.started_at := coalesce(j.started_at, c.at);
  end if;
  return j;
end $$;

-- A claimed job ends; whatever its handler still says is refused from here on.
create function ${s}.end_claimed(
  p_step bigint, p_now bigint, j ${s}.jobs, c ${s}.claims, p_kind int, p_state int,
  p_error text, p_told text, p_result text
) returns void language plpgsql as $$
begin
  j := ${s}.leave_claim(j, c, p_kind);
  perform ${s}.enter(j, p_state, p_now, p_error, p_result);
  -- With its key, because it gives its turn away.
  insert into ${s}.events (step, at, name, type, queue, subject, xkey, ids, attempt, error, left_epoch,
    processing, completed, failed, cancelled, expired, owned)
  values (p_step, p_now, ${stateName('p_state')}, j.type, j.queue, j.subject, j.xkey, j.id, j.attempts, p_told, c.epoch, -1,
    case when p_state = 0 then 1 end, case when p_state = 1 then 1 end, case when p_state = 2 then 1 end,
    case when p_state = 3 then 1 end, case when j.owned_by is not null then -1 end);
end $$;

create function ${s}.enter(j ${s}.jobs, p_state int, p_at bigint, p_error text, p_result text) returns void
language plpgsql as $$
declare
  v_ms bigint;
  v_count int;
  v_held bigint;
begin
  -- Who holds a job locks the place that it leaves here, so that the hold is seen.
  select q.keep_ms[p_state + 1], q.keep_count[p_state + 1], b.held_until into v_ms, v_count, v_held
  from ${s}.jobs b left join ${s}.policies q on q.no = b.policy where b.seq = j.seq;
  insert into ${s}.done (seq, completed_at, created_at, epoch, started_at, keep_ms, go_at, held_until, attempts, keep_count,
    state, "left", type, result, error)
  values (j.seq, p_at, j.created_at, j.epoch, j.started_at, v_ms, case when v_ms >= 0 then p_at + v_ms end, v_held, j.attempts,
    v_count, p_state, j."left", case when v_count is not null then j.type end, p_result, p_error);
  if j.flags > 1 or j.stalls > 0 or j.memo is not null then
    update ${s}.jobs b set over = true, again_at = null, expires_at = j.expires_at, stalls = j.stalls, memo = j.memo
    where b.seq = j.seq;
  end if;
end $$;

-- The pending job in the slot of another. One that is past its ttl is ended first, and then stands in nobody's way.
create function ${s}.slot_owner(p_step bigint, p_now bigint, j ${s}.jobs) returns text language plpgsql as $$
declare
  o ${s}.jobs;
begin
  if j.slot is null then return null; end if;
  select b.* into o from ${s}.jobs b
    where b.seq = (select p.seq from ${s}.pending p where p.type = j.type and p.slot = j.slot);
  if o.expires_at <= p_now then
    -- Whoever changes it is waited for: whether it has the slot depends on that.
    perform 1 from ${s}.pending p where p.type = o.type and p.seq = o.seq for update;
    if not found then return ${s}.slot_owner(p_step, p_now, j); end if;
    if ${s}.expire(p_step, p_now, o, false) then return null; end if;
  end if;
  return o.id;
end $$;

-- A claimed job goes back to pending, unless its ttl is over or another job has taken its slot meanwhile.
create function ${s}.back_to_pending(
  p_step bigint, p_now bigint, j ${s}.jobs, c ${s}.claims, p_kind int, p_due bigint
) returns void language plpgsql as $$
declare
  v_owner text;
  v_place int;
  v_told text;
begin
  if j.expires_at <= p_now then
    v_told := ${s}.expiry(j);
    perform ${s}.end_claimed(p_step, p_now, j, c, p_kind, 3, ${s}.error_text('EXPIRED', v_told),
      ${s}.told_text('EXPIRED', v_told), null);
    return;
  end if;
  loop
    v_owner := ${s}.slot_owner(p_step, p_now, j);
    if v_owner is not null then
      v_told := 'Job ' || v_owner || ' took its deduplication slot while it ran';
      perform ${s}.end_claimed(p_step, p_now, j, c, p_kind, 2, ${s}.error_text('SUPERSEDED', v_told),
        ${s}.told_text('SUPERSEDED', v_told), null);
      return;
    end if;
    j := ${s}.leave_claim(j, c, p_kind);
    j.due_at := p_due;
    j.again_at := null;
    -- If it is due, it stands in line like the others for the turn that it gives away.
    v_place := case when p_due > p_now then 1 when j.xkey is null then 0 else 2 end;
    exit when ${s}.put(j, v_place);
  end loop;
  update ${s}.jobs b set due_at = j.due_at, epoch = j.epoch, attempts = j.attempts, stalls = j.stalls, wary = j.wary,
    "left" = j."left", expires_at = j.expires_at, started_at = j.started_at, again_at = null, memo = j.memo,
    error = j.error, flags = b.flags | 4
  where b.seq = j.seq;
  insert into ${s}.events (step, at, type, queue, xkey, left_epoch, pending, processing, delayed, ready, later_at)
  values (p_step, p_now, j.type, j.queue, j.xkey, c.epoch, 1, -1, case when v_place = 1 then 1 end, v_place = 0,
    case when v_place = 1 then j.due_at end);
end $$;
`;

export function stateName(number: string): string {
  return `(array[${states.map((state) => `'${state}'`).join(', ')}])[${number} + 1]`;
}
