/** Insert of any batch: jobs that nothing can stand in the way of go in as one set, the others one by one. */
import { headAttributes, headTexts, named, newJobOf, plainAttributes, typed } from './columns.js';
import { now, readCommitted, settings } from './settings.js';

/** What is stored of a head as it is. */
const stored = headAttributes.filter(({ sql }) => !['policy', 'in_ms', 'at'].includes(sql));
const policyOf = (row: string) => ({ policy: `p_policies[${row}.policy]` });

export const batch = (s: string): string => `
-- Jobs that differ only in id and input share a head. The jobs of a call that nothing can stand in the way of ("even"):
-- numbers, ids, inputs, and the number of each one's head, from 1.
create type ${s}.evens as (seqs bigint[], ids text[], inputs text[], heads int[], head json);

create function ${s}.even_jobs(e ${s}.evens, p_policies int[]) returns setof ${s}.new_job language sql as $$
  select ${newJobOf('h', { ...plainAttributes, o: 't.o::int', seq: 't.seq', id: 't.id', input: 't.input', ...policyOf('h') })}
  from unnest(e.seqs, e.ids, e.inputs, e.heads) with ordinality t(seq, id, input, head, o)
  cross join lateral json_populate_record(null::${s}.new_job, e.head -> (t.head - 1)) h
$$;

create function ${s}.add_evens(p_step bigint, p_now bigint, e ${s}.evens, p_policies int[]) returns void
language plpgsql set enable_nestloop = off set enable_hashjoin = on as $$
begin
  with head as materialized (
    select h.o, ${named(stored, 'h.')},
      p_policies[h.policy] as policy, ${s}.instant(p_now, h.in_ms, h.at) as due_at
    from rows from (json_to_recordset(e.head) as (${typed(headAttributes)})
    ) with ordinality h(${named(headAttributes)}, o)
  ), new as materialized (
    select t.seq, t.id, t.input, t.o, h.due_at, p_now + h.ttl_ms as expires_at, h.policy, ${named(stored, 'h.')}
    from unnest(e.seqs, e.ids, e.inputs, e.heads) with ordinality t(seq, id, input, head, o) join head h on h.o = t.head
  ), stored as (
    insert into ${s}.jobs (seq, created_at, due_at, priority, max_attempts, policy, flags, id, type, queue, input, long,
      ttl_ms, expires_at, ${named(headTexts)})
    select n.seq, p_now, n.due_at, n.priority, n.max_attempts, n.policy, n.flags, n.id, n.type, n.queue, n.input, n.long,
      n.ttl_ms, n.expires_at, ${named(headTexts, 'n.')} from new n
  ), stood as (
    insert into ${s}.pending (seq, due_at, expires_at, priority, place, dear, type, queue)
    select n.seq, n.due_at, n.expires_at, n.priority, (n.due_at > p_now)::int, n.long is true, n.type, n.queue from new n
  )
  insert into ${s}.events (step, at, name, type, queue, subject, ids, pending, delayed, ready, later_at)
  select p_step, p_now, 'created', n.type, n.queue, n.subject, string_agg(n.id, ',' order by n.o), count(*),
    nullif(count(*) filter (where n.due_at > p_now), 0), bool_or(n.due_at <= p_now),
    min(n.due_at) filter (where n.due_at > p_now)
  from new n group by n.type, n.queue, n.subject order by min(n.o);
end $$;

-- p_policies, p_heads, p_rest: JSON, see policy_numbers, evens and new_job. p_head_of, p_evens: of the even ones, separated
-- by commas, the numbers of their heads (null: all 1) and their places in the call (null: all of it, in order).
-- p_ids by commas, p_inputs by newlines. Answers: [[place, outcome, id, other], …] of all that were not simply created, with
-- the outcome "again" of those that are to come again; or of a batch that is refused as a whole: {"code", "index", …}.
create function ${s}.insert_v1(
  p_now bigint, p_sender text, p_cap bigint, p_inside boolean, p_atomic boolean, p_policies text, p_heads text,
  p_head_of text, p_evens text, p_ids text, p_inputs text, p_rest text
) returns table (answers text, hints text) language plpgsql ${settings} as $$
declare
  v_now bigint := ${now};
  v_step bigint := ${s}.begin_step(p_inside);
  v_policies int[] := ${s}.policy_numbers(p_policies::json);
  v_rest int := coalesce(json_array_length(p_rest::json), 0);
  v_order int[] := string_to_array(p_evens, ',')::int[];
  v_seqs bigint[];
  v_answers text;
  e ${s}.evens;
begin
  ${readCommitted(' and not p_inside')}
  e.ids := string_to_array(p_ids, ',');
  e.inputs := string_to_array(p_inputs, E'\\n');
  e.head := p_heads::json;
  v_seqs := array(select nextval('${s}.job_no') from generate_series(1, coalesce(cardinality(e.ids), 0) + v_rest));
  if e.ids is not null then
    e.heads := coalesce(string_to_array(p_head_of, ',')::int[], array_fill(1, array[cardinality(e.ids)]));
    e.seqs := case when v_order is null then v_seqs
      else array(select v_seqs[x.o] from unnest(v_order) with ordinality x(o, i) order by x.i) end;
  end if;
  loop
    begin
      v_answers := ${s}.insert_each(v_step, v_now, p_inside, p_atomic, v_policies, v_seqs, v_order, e, p_rest::json);
      exit;
    exception when sqlstate 'LO001' then
      return query select sqlerrm, ''::text;
      return;
    when sqlstate 'LO004' then perform ${s}.await_claim(sqlerrm::bigint);
    end;
  end loop;
  return query select v_answers, ${s}.finish_step(v_step, v_now, p_sender, p_cap, p_inside, null);
end $$;

-- Ids are ordered by time, so that mostly one look tells that there is no tombstone of any.
create function ${s}.has_tombs(p_ids text[]) returns boolean language plpgsql as $$
declare
  v_last text := (select t.id from ${s}.tombs t order by t.id desc limit 1);
begin
  return v_last is not null and exists (select 1 from unnest(p_ids) i(id) where i.id <= v_last collate "C")
    and exists (select 1 from unnest(p_ids) i(id) cross join lateral (select 1 from ${s}.tombs t where t.id = i.id offset 0) t);
end $$;

-- False: an id is known, or becomes so at this moment, and nothing has happened.
create function ${s}.add_all(p_step bigint, p_now bigint, e ${s}.evens, p_policies int[]) returns boolean
language plpgsql as $$
begin
  if e.ids is null then return true; end if;
  if ${s}.has_tombs(e.ids) then return false; end if;
  perform ${s}.add_evens(p_step, p_now, e, p_policies);
  return true;
exception when unique_violation then return false;
end $$;

-- Whether a queue might have no room for all of them. Who adds to such a queue has its room alone, so that it is counted
-- once; not in a transaction of a caller, which would keep the others out until its end.
create function ${s}.is_crowded(p_now bigint, p_inside boolean, e ${s}.evens, p_rest json)
returns boolean language plpgsql as $$
declare
  v_queues text[];
  v_counts bigint[];
begin
  if not exists (select 1 from ${s}.limits l where l.max_pending is not null) then return false; end if;
  select array_agg(c.queue), array_agg(c.n) into v_queues, v_counts from (
    select q.queue, count(*) as n from (
      select r.queue from json_to_recordset(p_rest) r(queue text)
      union all
      select e.head -> (h.no - 1) ->> 'queue' from unnest(e.heads) h(no)
    ) q where exists (select 1 from ${s}.limits l where l.queue = q.queue and l.max_pending is not null) group by q.queue
  ) c;
  if v_queues is null then return false; end if;
  if not p_inside then perform ${s}.lock_names('${s}.limits'::regclass, v_queues);
  else ${readCommitted()}
  end if;
  return exists (
    select 1 from unnest(v_queues, v_counts) c(queue, n) join ${s}.limits l on l.queue = c.queue
    where ${s}.waiting_in(p_now, l.queue) + c.n > l.max_pending);
end $$;

-- Jobs past their ttl wait no longer, swept or not.
create function ${s}.waiting_in(p_now bigint, p_queue text) returns bigint language plpgsql as $$
begin
  return (
    select coalesce((select t.pending from ${s}.sums t where t.queue = p_queue), 0)
      - (select count(*) from ${s}.pending p where p.expires_at <= p_now and p.queue = p_queue));
end $$;

-- The even ones as a set, unless a queue might be full, and the rest in the order of the call.
create function ${s}.insert_each(
  p_step bigint, p_now bigint, p_inside boolean, p_atomic boolean, p_policies int[], p_seqs bigint[], p_order int[],
  e ${s}.evens, p_rest json
) returns text language plpgsql as $$
declare
  v_crowded boolean := ${s}.is_crowded(p_now, p_inside, e, p_rest);
  v_set boolean := false;
  v_refused jsonb;
  v_answers text[] := '{}';
  v_most bigint;
  v_stored bigint;
  v_waiting bigint;
  n ${s}.new_job;
  a ${s}.inserted;
begin
  -- Two calls that change several jobs of a type meet in any order, so one comes after the other. A transaction of the caller
  -- keeps nobody waiting that way.
  if not p_inside and (json_array_length(p_rest) > 1 or strpos(p_rest::text, '"replace"') > 0) then
    perform ${s}.lock_names('${s}.turns'::regclass, array(select r.type from json_to_recordset(p_rest) r(type text)));
  end if;
  if p_atomic then perform ${s}.refuse_conflicts(p_rest); end if;
  v_refused := ${s}.refused_early(p_now, e, p_order, p_rest, p_atomic);
  if strpos(p_rest::text, '"replace"') > 0 and not (p_atomic and v_crowded) then
    v_refused := ${s}.thin_out(p_step, p_now, p_inside, p_rest, coalesce(v_refused, '{}'), v_crowded);
  end if;
  if p_atomic and v_refused <> '{}' then
    return (select json_agg(json_build_array(x.o - 1, 'again')) from generate_series(1, cardinality(p_seqs)) x(o));
  end if;
  if not v_crowded and coalesce(strpos(v_refused::text, 'SUBJECT_ENDED'), 0) = 0 then v_set := ${s}.add_all(p_step, p_now, e, p_policies); end if;
  for n in
    select x.* from (
      select ${newJobOf('b', { o: 'coalesce(p_order[b.o], b.o) as o' })}
      from ${s}.even_jobs(e, p_policies) b where not v_set
      union all
      select ${newJobOf('r', { seq: 'p_seqs[r.o]', ...policyOf('r') })}
      from json_populate_recordset(null::${s}.new_job, p_rest) r
    ) x order by x.o
  loop
    if v_refused ? n.o::text then
      v_answers := v_answers || json_build_array(n.o - 1, v_refused ->> n.o::text, n.id, coalesce(n.owned_by, n.under_id),
        (select f.until from ${s}.fences f where f.subject = n.subject))::text;
      continue;
    end if;
    v_most := null;
    if v_crowded then
      select l.max_pending into v_most from ${s}.limits l where l.queue = n.queue;
      -- What this step has added and taken away counts; what it found expired was not counted in the first place.
      select coalesce(sum(v.pending), 0) into v_waiting from ${s}.events v
      where v.no > p_step and v.step = p_step and v.queue = n.queue and v.name is distinct from 'expired';
      v_stored := ${s}.waiting_in(p_now, n.queue) - v_waiting;
      v_waiting := v_stored + v_waiting;
    end if;
    a := ${s}.insert_one(p_step, p_now, n, null, v_most is null or v_waiting < v_most, p_inside);
    if a.outcome = 'full' and p_atomic then
      raise exception '%', json_build_object('code', 'QUEUE_FULL', 'index', n.o - 1, 'queue', n.queue, 'most', v_most,
        'pending', v_stored) using errcode = 'LO001';
    elsif a.outcome = 'full' then
      v_answers := v_answers || json_build_array(n.o - 1, a.outcome, n.id, n.queue, v_most, v_waiting)::text;
    elsif a.outcome <> 'created' then
      v_answers := v_answers || json_build_array(n.o - 1, a.outcome, a.id, a.other)::text;
    end if;
  end loop;
  if not p_inside then perform ${s}.mend_noted(p_step, p_now); end if;
  return '[' || array_to_string(v_answers, ',') || ']';
end $$;

-- Adds to those that are refused, by their places, those that are to come again: all of a type of which a replace has more to
-- end than one call may. Nothing of it goes in before that is done; the other types need not wait for it.
create function ${s}.thin_out(
  p_step bigint, p_now bigint, p_inside boolean, p_rest json, p_refused jsonb, p_crowded boolean
) returns jsonb language plpgsql as $$
declare
  v_types text[] := '{}';
  n ${s}.new_job;
begin
  for n in select r.* from json_populate_recordset(null::${s}.new_job, p_rest) r where r.dedup = 'replace' order by r.o loop
    continue when p_refused ? n.o::text or n.type = any(v_types);
    if ${s}.end_most(p_step, p_now, n, case when p_crowded then n.queue end, p_inside) then
      v_types := v_types || n.type;
    end if;
  end loop;
  if v_types = '{}' then return p_refused; end if;
  return (select jsonb_object_agg(r.o, 'again') from json_to_recordset(p_rest) r(o int, type text)
    where r.type = any(v_types)) || p_refused;
end $$;

-- Those that are refused for what is stored before the call, by their places, each with the reason; null: none.
create function ${s}.refused_early(p_now bigint, e ${s}.evens, p_order int[], p_rest json, p_atomic boolean) returns jsonb
language plpgsql as $$
declare
  v_refused jsonb := ${s}.ended_among(p_now, e, p_order, p_rest, p_atomic);
begin
  if coalesce(strpos(p_rest::text, '"owned_by"') + strpos(p_rest::text, '"under_epoch"'), 0) = 0 then return v_refused; end if;
  return ${s}.tie_all(p_rest, p_atomic, coalesce(v_refused, '{}'));
end $$;

-- Owners are stored before the call. Adds to those that are refused, by their places, those that cannot be tied to theirs or whose
-- claim is over, each with the reason.
create function ${s}.tie_all(p_rest json, p_atomic boolean, p_refused jsonb) returns jsonb language plpgsql as $$
declare
  v_refused jsonb := p_refused;
  v_why text;
  n ${s}.new_job;
begin
  for n in select r.* from json_populate_recordset(null::${s}.new_job, p_rest) r
    where r.owned_by is not null or r.under_epoch is not null order by r.o loop
    continue when p_refused ? n.o::text or (${s}.known_answer(n)).outcome is not null;
    v_why := ${s}.tie(n);
    if v_why is not null and p_atomic then
      raise exception '%', json_build_object('code', v_why, 'index', n.o - 1) using errcode = 'LO001';
    end if;
    if v_why is not null then v_refused := v_refused || jsonb_build_object(n.o, v_why); end if;
  end loop;
  return v_refused;
end $$;

-- All or none: a given id with another input is looked for first, also within the batch.
create function ${s}.refuse_conflicts(p_rest json) returns void language plpgsql as $$
declare
  r record;
  n ${s}.new_job;
  a ${s}.inserted;
begin
  for r in
    select g as job, first_value(g.print) over (partition by g.id order by g.o) <> g.print as clashes
    from json_populate_recordset(null::${s}.new_job, p_rest) g where g.given order by g.o
  loop
    n := r.job;
    a := ${s}.known_answer(n);
    if r.clashes or a.outcome = 'conflict' then
      raise exception '%', json_build_object('code', 'IDEMPOTENCY_CONFLICT', 'index', n.o - 1, 'id', n.id)
        using errcode = 'LO001';
    end if;
  end loop;
end $$;
`;
