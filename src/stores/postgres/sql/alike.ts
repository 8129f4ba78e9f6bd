/**
 * Insert of jobs that differ only in id and input, and that nothing can stand in the way of: most calls are one of these.
 * Two statements; every further one would be felt by who enqueues one job at a time.
 */
import { headAttributes, headTexts, named, typed } from './columns.js';
import { now, readCommitted, settings } from './settings.js';

/** The policy comes by its text. */
const head = headAttributes.filter(({ sql }) => sql !== 'policy');

export const alike = (s: string): string => `
-- As insert_v1 answers. A type of its own is known to a session; columns named in a function are put together in every call.
create type ${s}.insert_answer as (answers text, hints text);

-- p_keep_ms, p_keep_count: see policies. p_ids by commas, p_inputs by newlines; p_n: how many; p_least: the least id. An id
-- that becomes known at this moment is a unique_violation: then nothing has happened, and insert_v1 is to be called.
create function ${s}.insert_alike_v1(
  p_now bigint, p_sender text, p_cap bigint, p_inside boolean, p_atomic boolean, p_policy text, p_keep_ms text,
  p_keep_count text, ${typed(head, 'p_')}, p_n int, p_least text, p_ids text, p_inputs text
) returns ${s}.insert_answer language plpgsql ${settings} as $$
declare
  v_now bigint := ${now};
  v_due bigint := case when p_in_ms is not null then v_now + p_in_ms else greatest(p_at, v_now) end;
  v_step bigint;
  v_policy int;
  r ${s}.insert_answer;
begin
  ${readCommitted(' and not p_inside')}
  select (
    select q.no from ${s}.policies q where hashtextextended(q.body, 0) = hashtextextended(p_policy, 0) and q.body = p_policy
      and q.no <= 100 order by q.no limit 1
  ) into v_policy
  where not exists (select 1 from ${s}.limits l where l.max_pending is not null)
    and coalesce((select t.id from ${s}.tombs t order by t.id desc limit 1), '') < p_least
    and (p_subject is null or not exists (select 1 from ${s}.fences f where f.subject = p_subject and f.until > v_now));
  if v_policy is null then
    select i.answers, i.hints into r from ${s}.insert_v1(v_now, p_sender, p_cap, p_inside, p_atomic,
      json_build_array(json_build_array(p_policy, p_keep_ms, p_keep_count))::text,
      json_build_array(json_build_object(${head.map(({ sql }) => `'${sql}', p_${sql}`).join(', ')}, 'policy', 1))::text,
      null, null, p_ids, p_inputs, null) i;
    return r;
  end if;
  v_step := ${s}.begin_step(p_inside);
  -- One number more than there are jobs is drawn: when the lists turn out to be at their end.
  with stored as (
    insert into ${s}.jobs (seq, created_at, due_at, priority, max_attempts, policy, flags, id, type, queue, input, long,
      ttl_ms, expires_at, ${named(headTexts)})
    select n.seq, v_now, v_due, p_priority, p_max_attempts, v_policy, p_flags, n.id, p_type, p_queue, n.input, p_long,
      p_ttl_ms, v_now + p_ttl_ms, ${named(headTexts, 'p_')}
    from (
      select nextval('${s}.job_no') as seq, unnest(string_to_array(p_ids, ',')) as id,
        unnest(string_to_array(p_inputs, E'\\n')) as input
    ) n returning seq
  ), stood as (
    insert into ${s}.pending (seq, due_at, expires_at, priority, place, dear, type, queue)
    select b.seq, v_due, v_now + p_ttl_ms, p_priority, (v_due > v_now)::int, p_long is true, p_type, p_queue from stored b
  )
  insert into ${s}.events (step, at, name, type, queue, subject, ids, pending, delayed)
  values (v_step, v_now, 'created', p_type, p_queue, p_subject, p_ids, p_n, case when v_due > v_now then p_n end);
  r.hints := ${s}.finish_step(v_step, v_now, p_sender, p_cap, p_inside,
    case when v_due > v_now then 'l:' || (v_due - v_now)::text else 'r:' || p_type end || ' e');
  return r;
end $$;
`;
