/**
 * Fences of subjects. Who claims looks at them after it has taken its jobs, with a younger snapshot: so a job that came in beside
 * a fence, and was seen by the claim, is not started by it.
 */
import { systemQueue } from '../../../core/names.js';
import { firstLookMs } from '../../../core/subject.js';
import { farAway } from '../../../core/store.js';
import { now, readCommitted } from './settings.js';

/** Fences that one sweep looks behind. */
const fencesMax = 100;
const most = '9223372036854775807';

export const subjects = (s: string): string => `
-- p_set false lifts it. p_for_ms null: until it is lifted. At most one row: the fence that stands, or that was lifted.
create function ${s}.pause_subject_v1(p_now bigint, p_subject text, p_set boolean, p_reason text, p_for_ms bigint)
returns table (at bigint, until bigint) language plpgsql as $$
declare
  v_now bigint := ${now};
  v_until bigint := coalesce(least(v_now + p_for_ms, ${farAway}), ${farAway});
  f ${s}.fences;
begin
  ${readCommitted()}
  if not p_set then
    delete from ${s}.fences k where k.subject = p_subject returning k.* into f;
    if f.until > v_now then return query select v_now, f.until; end if;
    return;
  end if;
  insert into ${s}.fences as k (subject, at, until, due_at, reason)
  values (p_subject, v_now, v_until, least(v_now + ${firstLookMs}, v_until), p_reason)
  on conflict (subject) do update set at = excluded.at, until = greatest(k.until, excluded.until), reason = excluded.reason,
    due_at = least(excluded.at + ${firstLookMs}, greatest(k.until, excluded.until))
  returning k.* into f;
  return query select v_now, f.until;
end $$;

create function ${s}.is_fenced(p_now bigint, p_subject text) returns boolean language plpgsql stable as $$
begin
  return p_subject is not null and exists (select 1 from ${s}.fences f where f.subject = p_subject and f.until > p_now);
end $$;

-- Of jobs on their way in, those that a fence refuses, by their places; null: none.
create function ${s}.ended_among(p_now bigint, e ${s}.evens, p_order int[], p_rest json, p_atomic boolean) returns jsonb
language plpgsql as $$
declare
  v_refused jsonb;
  n ${s}.new_job;
  r record;
begin
  if not exists (select 1 from ${s}.fences) then return null; end if;
  for r in
    select x.o, x.job, f.until from (
      select coalesce(p_order[b.o], b.o) as o, b as job, b.subject from ${s}.even_jobs(e, '{}') b
      union all
      select b.o, b, b.subject from json_populate_recordset(null::${s}.new_job, p_rest) b
    ) x cross join lateral (
      select k.until from ${s}.fences k where k.subject = x.subject and k.until > p_now offset 0
    ) f order by x.o
  loop
    n := r.job;
    continue when (${s}.known_answer(n)).outcome is not null;
    if p_atomic then
      raise exception '%', json_build_object('code', 'SUBJECT_ENDED', 'index', r.o - 1, 'until', r.until) using errcode = 'LO001';
    end if;
    v_refused := coalesce(v_refused, '{}') || jsonb_build_object(r.o, 'SUBJECT_ENDED');
  end loop;
  return v_refused;
end $$;

-- Of jobs that were just taken out of their place, those that may start; the others are ended, and the next claim passes their
-- turns on. The library's own go on.
create function ${s}.drop_fenced(p_step bigint, p_now bigint, p_seqs bigint[]) returns bigint[] language plpgsql as $$
declare
  v_dropped bigint[] := '{}';
  j ${s}.jobs;
  r record;
begin
  if not exists (select 1 from ${s}.fences) then return p_seqs; end if;
  for r in
    select b.job, f.reason from unnest(p_seqs) with ordinality x(seq, o)
    cross join lateral (
      select k as job, k.subject from ${s}.jobs k where k.seq = x.seq and k.subject is not null and k.queue <> '${systemQueue}' offset 0
    ) b
    cross join lateral (select k.reason from ${s}.fences k where k.subject = b.subject and k.until > p_now offset 0) f order by x.o
  loop
    j := r.job;
    v_dropped := v_dropped || j.seq;
    if j.xkey is not null then perform ${s}.note_key(p_step, j, p_now, null, true); end if;
    perform ${s}.enter(j, 2, p_now, ${s}.error_text('CANCELLED', r.reason), null);
    insert into ${s}.events (step, at, name, type, queue, subject, ids, attempt, error, pending, cancelled, owned)
    values (p_step, p_now, 'cancelled', j.type, j.queue, j.subject, j.id, j.attempts, ${s}.told_text('CANCELLED', r.reason), -1, 1,
      case when j.owned_by is not null then -1 end);
  end loop;
  if v_dropped = '{}' then return p_seqs; end if;
  return array(select x.seq from unnest(p_seqs) with ordinality x(seq, o) where not x.seq = any(v_dropped) order by x.o);
end $$;

create type ${s}.collected as (fenced int, more boolean);

-- Looks behind the fences that are due for it: at most p_limit jobs end. Null: none is due.
create function ${s}.collect_fenced(p_step bigint, p_now bigint, p_limit int) returns ${s}.collected language plpgsql as $$
declare
  v_fences int := 0;
  v_missed boolean;
  f ${s}.fences;
  j ${s}.jobs;
  t ${s}.found;
  c ${s}.collected;
begin
  c := (0, false);
  for f in
    select k.* from ${s}.fences k where k.due_at <= p_now order by k.due_at limit ${fencesMax} for update skip locked
  loop
    v_fences := v_fences + 1;
    v_missed := false;
    if f.until <= p_now then
      delete from ${s}.fences k where k.subject = f.subject;
      continue;
    end if;
    if c.fenced < p_limit then
      t := ${s}.search(json_populate_record(null::${s}.filter,
        json_build_object('subject', f.subject, 'states', array['pending'], 'system', false)), ${most}, p_limit - c.fenced, p_now);
      for j in
        select b.* from unnest(t.seqs) x(seq)
        cross join lateral (select k.* from ${s}.jobs k where k.seq = x.seq offset 0) b
      loop
        perform 1 from ${s}.pending p where p.type = j.type and p.seq = j.seq for update skip locked;
        if not found then
          v_missed := true;
        elsif ${s}.end_pending(p_step, p_now, j, 2, 'CANCELLED', f.reason, p_now, false) then
          c.fenced := c.fenced + 1;
        end if;
      end loop;
    end if;
    if c.fenced >= p_limit then
      c.more := true;
      return c;
    end if;
    -- Somebody has one of them: the next sweep looks again.
    continue when v_missed;
    update ${s}.fences k set due_at = least(p_now + greatest(${firstLookMs}, p_now - f.at), f.until) where k.subject = f.subject;
  end loop;
  c.more := v_fences = ${fencesMax};
  return c;
end $$;

-- An orphan ends; what is not pending any more is none.
create function ${s}.condemn(p_step bigint, p_now bigint, p_seq bigint, m ${s}.move, p_dry boolean) returns text
language plpgsql as $$
declare
  j ${s}.jobs;
begin
  loop
    select b.* into j from ${s}.jobs b where b.seq = p_seq;
    if not found or ${s}.state_of(j.seq, j.type, j.expires_at, p_now) <> 'pending' then return 'not_pending'; end if;
    if p_dry or ${s}.end_pending(p_step, p_now, j, 2, 'ORPHANED', m.reason, p_now, false) then return 'cancelled'; end if;
  end loop;
end $$;
`;
