/** Settle: the fence, and what each ending becomes. Notes pass the same fence. */
import { leavings } from './end.js';

const kind = Object.fromEntries(leavings.map((name, number) => [name, number])) as Record<
  (typeof leavings)[number],
  number
>;

export const settle = (s: string): string => `
-- One ending on its way in. o: its place in the call; kind: see end.ts; told: JSON of what an event shows of the error.
create type ${s}.settlement as (
  o int, id text, epoch bigint, kind int, result text, in_ms bigint, at bigint, error text, told text, memo text,
  followers json
);

-- Completed jobs on which nothing hangs, of one claim, as a set. Those that were not settled so.
create function ${s}.complete_plain(p_step bigint, p_now bigint, c ${s}.claims, p_ids text[], p_results text[])
returns text[] language plpgsql as $$
declare
  v_settled text[];
  v_n int;
  v_type text;
  v_queue text;
  v_alike boolean;
begin
  with job as materialized (
    select x.id, x.result, b.seq, b.created_at, b.type, b.queue, b.subject
    from unnest(p_ids, p_results) x(id, result) cross join lateral (
      select j.seq, j.created_at, j.type, j.queue, j.subject from ${s}.jobs j where j.id = x.id and j.flags < 2 offset 0
    ) b
    where case when b.seq in (select unnest(c.seqs)) then true else false end
      and not exists (select 1 from ${s}.done d where d.seq = b.seq offset 0)
  ), ended as (
    insert into ${s}.done (seq, completed_at, created_at, epoch, started_at, attempts, state, "left", result)
    select j.seq, p_now, j.created_at, c.epoch, c.at, 1, 0, ${kind.complete}, j.result from job j
  )
  select array_agg(j.id), count(*), min(j.type), min(j.queue),
    min(j.type) = max(j.type) and min(j.queue) = max(j.queue) and count(j.subject) = 0
  into v_settled, v_n, v_type, v_queue, v_alike from job j;
  if v_n = 0 then return p_ids; end if;
  if v_alike then
    insert into ${s}.events (step, at, name, type, queue, attempt, ids, processing, completed)
    values (p_step, p_now, 'completed', v_type, v_queue, 1, array_to_string(v_settled, ','), -v_n, v_n);
  else
    insert into ${s}.events (step, at, name, type, queue, subject, attempt, ids, processing, completed)
    select p_step, p_now, 'completed', b.type, b.queue, b.subject, 1, string_agg(b.id, ',' order by x.o), -count(*), count(*)
    from unnest(v_settled) with ordinality x(id, o)
      cross join lateral (select j.id, j.type, j.queue, j.subject from ${s}.jobs j where j.id = x.id offset 0) b
    group by b.type, b.queue, b.subject order by min(x.o);
  end if;
  if v_n = c.open then
    delete from ${s}.claims k where k.epoch = c.epoch;
    delete from ${s}.marked m where m.epoch = c.epoch;
  else update ${s}.claims k set open = k.open - v_n where k.epoch = c.epoch;
  end if;
  if v_n = cardinality(p_ids) then return '{}'; end if;
  return array(select x.id from unnest(p_ids) x(id) where not x.id = any(v_settled));
end $$;

-- ok, same (sent again), STALE_CLAIM or ALREADY_SETTLED. The claim, if there is one, is locked.
create function ${s}.settle_one(p_step bigint, p_now bigint, p_owner text, x ${s}.settlement) returns text
language plpgsql as $$
declare
  c ${s}.claims;
  j ${s}.jobs;
begin
  select k.* into c from ${s}.claims k where k.epoch = x.epoch and k.owner = p_owner;
  select b.* into j from ${s}.jobs b where b.id = x.id;
  if c.epoch is null or j.seq is null or j.epoch >= x.epoch or not j.seq = any(c.seqs)
    or exists (select 1 from ${s}.done d where d.seq = j.seq offset 0) then
    return ${s}.answer_for_over(j, x);
  end if;
  -- A job that lives for years meets a crash now and then; that is no reason to part it from its neighbours.
  if x.memo is not null then
    j.memo := x.memo;
    j.stalls := 0;
  end if;
  perform ${s}.leave(p_step, p_now, j, c, x);
  return 'ok';
end $$;

-- The claim is over for this job. If it ended in just this way, the reply was lost: say ok again.
create function ${s}.answer_for_over(j ${s}.jobs, x ${s}.settlement) returns text language plpgsql as $$
declare
  v_epoch bigint := j.epoch;
  v_left int := j."left";
  v_completed boolean := false;
  v_result text;
begin
  if j.seq is null then
    select t.epoch, t."left" into v_epoch, v_left from ${s}.tombs t where t.id = x.id;
  else
    select d.epoch, d."left", d.state = 0, d.result into v_epoch, v_left, v_completed, v_result
    from ${s}.done d where d.seq = j.seq;
    if not found then
      v_epoch := j.epoch;
      v_left := j."left";
    end if;
  end if;
  if v_epoch is distinct from x.epoch or v_left is null or v_left = ${kind.lapse} then return 'STALE_CLAIM'; end if;
  return case when v_left = x.kind and (x.kind <> ${kind.complete} or v_completed is not true or v_result = x.result)
    then 'same' else 'ALREADY_SETTLED' end;
end $$;

-- The table of core/ending.ts.
create function ${s}.leave(p_step bigint, p_now bigint, j ${s}.jobs, c ${s}.claims, x ${s}.settlement) returns void
language plpgsql as $$
declare
  v_cancel boolean := j.cancel_at is not null;
  v_again boolean := j.again_at is not null and j.cancel_at is null;
  v_due bigint := case x.kind when ${kind.snooze} then ${s}.instant(p_now, x.in_ms, x.at)
    when ${kind.retry} then p_now + x.in_ms else p_now end;
begin
  if x.kind = ${kind.cancel} or (v_cancel and x.kind not in (${kind.complete}, ${kind.fail})) then
    if x.kind <> ${kind.release} then j.attempts := j.attempts + 1; end if;
    perform ${s}.end_claimed(p_step, p_now, j, c, x.kind, 2,
      case when v_cancel then ${s}.error_text('CANCELLED', j.cancel_reason) else x.error end,
      case when v_cancel then ${s}.told_text('CANCELLED', j.cancel_reason) else x.told end, null);
  elsif x.kind = ${kind.release} then
    perform ${s}.back_to_pending(p_step, p_now, j, c, x.kind, j.due_at);
  elsif v_again then
    perform ${s}.run_again(p_step, p_now, j, c, x, case when x.kind = ${kind.snooze}
      then least(greatest(j.again_at, p_now), v_due) else greatest(j.again_at, p_now) end);
  elsif x.kind = ${kind.complete} then
    j.attempts := j.attempts + 1;
    perform ${s}.end_claimed(p_step, p_now, j, c, x.kind, 0, null, null, x.result);
  elsif x.kind in (${kind.exhaust}, ${kind.fail}) then
    j.attempts := j.attempts + 1;
    perform ${s}.end_claimed(p_step, p_now, j, c, x.kind, 1, x.error, x.told, null);
  else
    if x.kind = ${kind.retry} then
      j.attempts := j.attempts + 1;
      j.error := x.error;
    end if;
    insert into ${s}.events (step, at, name, type, queue, subject, ids, attempt, error)
    values (p_step, p_now, case when x.kind = ${kind.retry} then 'retried' else 'snoozed' end, j.type, j.queue, j.subject,
      j.id, case when x.kind = ${kind.retry} then j.attempts end, x.told);
    perform ${s}.back_to_pending(p_step, p_now, j, c, x.kind, v_due);
  end if;
end $$;

-- A coalesced event came while the job ran: it starts over, with all its attempts and a new ttl.
create function ${s}.run_again(p_step bigint, p_now bigint, j ${s}.jobs, c ${s}.claims, x ${s}.settlement, p_due bigint)
returns void language plpgsql as $$
begin
  j.attempts := 0;
  j.error := null;
  if j.ttl_ms is not null then j.expires_at := p_now + j.ttl_ms; end if;
  insert into ${s}.events (step, at, name, type, queue, subject, ids, attempt)
  values (p_step, p_now, case when x.kind = ${kind.snooze} then 'snoozed' else 'retried' end, j.type, j.queue, j.subject, j.id, 0);
  perform ${s}.back_to_pending(p_step, p_now, j, c, x.kind, p_due);
end $$;

-- Who puts several jobs into slots does it in any order, so that two of them come one after the other, by the types. Of one job
-- nobody waits for the other.
create function ${s}.lock_slots(p_others json) returns void language plpgsql as $$
declare
  v_types text[];
begin
  select array_agg(b.type) into v_types from (
    select j.type from json_to_recordset(p_others) x(id text, kind int) cross join lateral (
      select k.type, k.again_at from ${s}.jobs k where k.id = x.id and k.slot is not null offset 0
    ) j where x.kind in (${kind.retry}, ${kind.snooze}, ${kind.release}) or j.again_at is not null
    union all
    select f.type from json_to_recordset(p_others) x(followers json)
      cross join lateral json_to_recordset(x.followers) f(type text, dedup text)
    where x.followers is not null and f.dedup <> 'none'
  ) b;
  if cardinality(v_types) > 1 then perform ${s}.lock_names('${s}.turns'::regclass, v_types); end if;
end $$;

-- Null: all were settled as a set.
create function ${s}.settle_plain(
  p_step bigint, p_now bigint, p_owner text, p_epochs bigint[], p_counts int[], p_ids text[], p_results text[]
) returns text language plpgsql as $$
declare
  v_from int := 1;
  v_left text[];
  v_answers text[];
  v_answer text;
  x ${s}.settlement;
  c ${s}.claims;
  r record;
begin
  for r in select y.epoch, y.n from unnest(p_epochs, p_counts) y(epoch, n) loop
    select k.* into c from ${s}.claims k where k.epoch = r.epoch and k.owner = p_owner;
    if c.epoch is null then
      v_left := p_ids[v_from:v_from + r.n - 1];
    else
      v_left := ${s}.complete_plain(p_step, p_now, c, p_ids[v_from:v_from + r.n - 1], p_results[v_from:v_from + r.n - 1]);
    end if;
    if cardinality(v_left) > 0 then
      v_answers := coalesce(v_answers, '{}');
      for x in
        select y.o, y.id, r.epoch, ${kind.complete}, y.result, null, null, null, null, null, null
        from unnest(p_ids, p_results) with ordinality y(id, result, o)
        where y.o >= v_from and y.o < v_from + r.n and y.id = any(v_left) order by y.o
      loop
        v_answer := ${s}.settle_one(p_step, p_now, p_owner, x);
        if v_answer not in ('ok', 'same') then v_answers := v_answers || ('p' || (x.o - 1) || ':' || v_answer); end if;
      end loop;
    end if;
    v_from := v_from + r.n;
  end loop;
  return array_to_string(v_answers, ',');
end $$;

create function ${s}.settle_others(p_step bigint, p_now bigint, p_owner text, p_others json, p_policies json) returns text
language plpgsql as $$
declare
  v_answers text[] := '{}';
  v_answer text;
  v_policies int[];
  x ${s}.settlement;
  n ${s}.new_job;
begin
  for x in select y.* from json_populate_recordset(null::${s}.settlement, p_others) y loop
    v_answer := ${s}.settle_one(p_step, p_now, p_owner, x);
    if v_answer not in ('ok', 'same') then v_answers := v_answers || (x.o || ':' || v_answer); end if;
    if v_answer = 'ok' and x.followers is not null then
      v_policies := coalesce(v_policies, ${s}.policy_numbers(p_policies));
      -- A job that is refused is left out, and no limit of a queue does that.
      for n in select f.* from json_populate_recordset(null::${s}.new_job, x.followers) f loop
        n.policy := v_policies[n.policy];
        n.seq := nextval('${s}.job_no');
        continue when ${s}.is_fenced(p_now, n.subject) or ((n.owned_by is not null or n.under_epoch is not null) and ${s}.tie(n) is not null);
        perform ${s}.insert_one(p_step, p_now, n, null, true, false);
      end loop;
    end if;
  end loop;
  return array_to_string(v_answers, ',');
end $$;
`;
