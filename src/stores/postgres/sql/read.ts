/** Read, note and pause. */
import { systemQueue } from '../../../core/names.js';
import { defaults } from '../../../core/policy.js';
import { dueAtField } from '../rows.js';
import { isType, now, readCommitted, settings } from './settings.js';

/** Lines of a job's log, and their bytes; then one line that says so. */
const lines = { most: 1_000, bytes: 262_144 } as const;

export const read = (s: string): string => `
-- Records from p_from on that are decided. The first line says up to where they are (which may go back a little, when a
-- step begins late), up to where rows are gone, and which number comes next.
create function ${s}.read_events_v2(p_from bigint, p_limit int) returns table (
  no bigint, at bigint, name text, type text, queue text, subject text, attempt int, error text, ids text, progress text
)
language plpgsql ${settings} as $$
declare
  v_decided bigint := ${s}.decided();
begin
  ${readCommitted()}
  return query select v_decided, (select m.no from ${s}.marks m where m.name = 'trimmed'), null::text, null::text, null::text,
    null::text, null::int, null::text, (coalesce(pg_sequence_last_value('${s}.event_no'::regclass), 0) + 1)::text, null::text;
  return query select e.no, e.at, e.name, e.type, e.queue, e.subject, e.attempt, e.error, e.ids, e.progress
    from ${s}.events e
    where e.no >= p_from and e.no < v_decided and e.name is not null order by e.no limit p_limit;
end $$;

-- Why what this server says may be out of date; null: it is the primary, and has the standbys that it waits for. Who may not see
-- which of them keep up (pg_monitor) cannot know.
create function ${s}.doubt() returns text language plpgsql stable as $$
declare
  v_names text := current_setting('synchronous_standby_names');
begin
  if pg_is_in_recovery() then return 'it is a standby'; end if;
  if v_names <> '' and (select count(*) from pg_stat_replication r where r.sync_state in ('sync', 'quorum'))
    < coalesce(substring(v_names from '(?i)^ *(?:first|any)? *([0-9]+) *[(]')::int, 1) then
    return 'it lacks standbys that it waits for (synchronous_standby_names), or does not let this role see them';
  end if;
  return null;
end $$;

-- As find_v1; the first line says whether to doubt it.
create function ${s}.read_overdue_v1(p_now bigint, p_filter text, p_below bigint, p_limit int)
returns table (job text, next bigint, doubt text) language plpgsql stable ${settings} as $$
declare
  v_now bigint := ${now};
begin
  return query select null::text, null::bigint, ${s}.doubt();
  return query select f.job, f.next, null::text from ${s}.find_v1(v_now, p_filter, p_below, p_limit) f
    where f.job is null or (f.job::json->>${dueAtField})::bigint <= v_now - ${defaults.storeCallMs};
end $$;

create function ${s}.read_lines_v1(p_id text) returns table (at bigint, message text, fields text)
language plpgsql stable ${settings} as $$
begin
  return query select l.at, l.message, l.fields from ${s}.lines l
    where l.seq = (select b.seq from ${s}.jobs b where b.id = p_id) order by l.seq, l.no;
end $$;

create function ${s}.read_claims_v1(p_owner text) returns table (epoch bigint, ids text) language plpgsql stable ${settings} as $$
begin
  return query select c.epoch, (
      select string_agg(b.id, ',' order by x.o) from unnest(c.seqs) with ordinality x(seq, o)
        cross join lateral (select k.seq, k.id, k.epoch from ${s}.jobs k where k.seq = x.seq offset 0) b
      where b.epoch < c.epoch and not exists (select 1 from ${s}.done d where d.seq = b.seq offset 0))
    from ${s}.claims c where c.owner = p_owner order by c.epoch;
end $$;

-- How many jobs are due and do not run: ready, behind a key, or not yet promoted; counted up to the limit.
create function ${s}.read_due_v1(p_now bigint, p_types text, p_queues text, p_limit int) returns table (n bigint)
language plpgsql stable ${settings} as $$
declare
  v_now bigint := ${now};
begin
  return query select count(*) from (
    select 1 from (select distinct t.type from unnest(string_to_array(p_types, ',')) t(type)) t
    cross join lateral (
      (select 1 from ${s}.pending p where p.place = 0 and ${isType('p.type', 't.type')}
        and (p_queues is null or p.queue = any(string_to_array(p_queues, ',')))
        and (p.expires_at is null or p.expires_at > v_now) limit p_limit)
      union all
      (select 1 from ${s}.pending p where p.place = 2 and p.type = t.type
        and (p_queues is null or p.queue = any(string_to_array(p_queues, ',')))
        and (p.expires_at is null or p.expires_at > v_now) limit p_limit)
      union all
      (select 1 from ${s}.pending p where p.place = 1 and p.due_at <= v_now and p.type = t.type
        and (p_queues is null or p.queue = any(string_to_array(p_queues, ',')))
        and (p.expires_at is null or p.expires_at > v_now) limit p_limit)
    ) x limit p_limit
  ) y;
end $$;

create function ${s}.read_lanes_v1(p_now bigint) returns table (type text, queue text, waited_ms bigint)
language plpgsql stable ${settings} as $$
declare
  v_now bigint := ${now};
begin
  return query select l.type, l.queue, greatest(0, v_now - min(l.due_at)) from ${s}.due_lanes(v_now) l group by l.type, l.queue;
end $$;

-- p_notes: [{id, epoch, progress, lines: [{message, fields}]}, …]. Written under a claim: a stale one changes nothing.
create function ${s}.note_v1(p_now bigint, p_sender text, p_owner text, p_notes text)
returns table (answers text, hints text) language plpgsql ${settings} as $$
declare
  v_now bigint := ${now};
  v_step bigint := ${s}.begin_step(false);
  v_answers text[] := '{}';
  r record;
  j ${s}.jobs;
begin
  ${readCommitted()}
  -- The claims cannot be settled meanwhile.
  perform 1 from ${s}.claims c where c.owner = p_owner and c.epoch = any(array(
    select (x.value ->> 'epoch')::bigint from json_array_elements(p_notes::json) x)) order by c.epoch for key share;
  for r in select x.* from json_to_recordset(p_notes::json) x(id text, epoch bigint, progress text, lines json) loop
    select b.* into j from ${s}.jobs b where b.id = r.id and b.epoch < r.epoch
      and b.seq = any((select c.seqs from ${s}.claims c where c.epoch = r.epoch and c.owner = p_owner)::bigint[])
      and not exists (select 1 from ${s}.done d where d.seq = b.seq offset 0);
    if not found then
      v_answers := v_answers || 'STALE_CLAIM'::text;
      continue;
    end if;
    v_answers := v_answers || 'ok'::text;
    if r.progress is not null then
      update ${s}.jobs b set progress = r.progress, flags = b.flags | 1 where b.seq = j.seq;
      insert into ${s}.events (step, at, name, type, queue, subject, ids, progress)
      values (v_step, v_now, 'progress', j.type, j.queue, j.subject, j.id, r.progress);
    end if;
    if json_array_length(r.lines) > 0 then perform ${s}.add_lines(v_now, j.seq, r.lines); end if;
  end loop;
  return query select array_to_string(v_answers, ','), ${s}.finish_step(v_step, v_now, p_sender, null, false, null);
end $$;

create function ${s}.add_lines(p_now bigint, p_seq bigint, p_lines json) returns void language plpgsql as $$
declare
  v_count int;
  v_bytes bigint;
  v_full boolean := false;
  r record;
begin
  if (select l.fields = '{"truncated":true}' from ${s}.lines l where l.seq = p_seq order by l.no desc limit 1) then return; end if;
  select count(*), coalesce(sum(octet_length(l.message) + coalesce(octet_length(l.fields), 0)), 0) into v_count, v_bytes
  from ${s}.lines l where l.seq = p_seq;
  for r in select x.* from json_to_recordset(p_lines) x(message text, fields text) loop
    v_count := v_count + 1;
    v_bytes := v_bytes + octet_length(r.message) + coalesce(octet_length(r.fields), 0);
    v_full := v_count > ${lines.most} or v_bytes > ${lines.bytes};
    insert into ${s}.lines (seq, no, at, message, fields)
    values (p_seq, v_count, p_now, case when v_full then 'truncated' else r.message end,
      case when v_full then '{"truncated":true}' else r.fields end);
    exit when v_full;
  end loop;
end $$;

-- Null: every queue. The words of core/pauses.ts.
create function ${s}.pause_v1(p_sender text, p_queue text, p_paused boolean) returns table (hints text)
language plpgsql as $$
begin
  ${readCommitted()}
  lock table ${s}.paused in share row exclusive mode;
  if p_queue is null then delete from ${s}.paused p where not p_paused or p.queue like '+%';
  else delete from ${s}.paused p where p.queue = case when p_paused then '+' else '' end || p_queue;
  end if;
  insert into ${s}.paused (queue) select w.word from (
    select coalesce(p_queue, '*') as word where p_paused
    union all select '+' || p_queue where not p_paused and p_queue <> '${systemQueue}' and exists (select 1 from ${s}.paused p where p.queue = '*')
  ) w on conflict do nothing;
  hints := case when p_paused then 'p' else 'r:*' end;
  perform ${s}.notify(p_sender, hints);
  return next;
end $$;
`;
