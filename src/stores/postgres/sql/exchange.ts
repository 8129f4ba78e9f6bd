/**
 * Claim and settle as they are called. What is usual, plain jobs of one lane, goes a short way of few statements: each is felt
 * by a worker that settles one job at a time. Everything else goes through claim.ts and settle.ts.
 */
import { deadMany } from './claim.js';
import { leavings } from './end.js';
import { now, readCommitted, settings } from './settings.js';

const complete = leavings.indexOf('complete');

/** Arguments of both: what a claim asks for, see claim_request. */
const asked = `p_types text, p_queues text, p_slots int, p_ahead int, p_lease_ms bigint, p_max_stalls int, p_after text,
  p_floor bigint`;

const variables = (s: string): string => `
  v_now bigint := ${now};
  v_floor bigint := coalesce(p_floor, 0);
  v_known text[];
  v_unusual boolean;
  v_later bigint;
  v_first text;
  v_queue text;
  v_quiet boolean := true;
  v_noted boolean := false;
  g record;
  r ${s}.claim_request;
  t ${s}.taken;
  q ${s}.claimed;`;

/** The claim itself, into \`q\`, with its lines. \`v_step\` is null where nothing was written before. */
const claimPart = (s: string): string => `
  v_known := (string_to_array(p_after, ','))[4:];
  -- In one look: whether anything else is to be done first, and when the next delayed job is due.
  select exists (select 1 from ${s}.claims c where c.due_at > v_floor and c.due_at <= v_now)
      or exists (select 1 from ${s}.pending p where p.expires_at > v_floor and p.expires_at <= v_now)
      or exists (select 1 from ${s}.loose) or exists (select 1 from ${s}.paused)
      or exists (select 1 from ${s}.limits l where l.concurrency is not null or l.rate_max is not null),
    (select p.due_at from ${s}.pending p where p.place = 1 and p.due_at > v_floor order by p.due_at limit 1)
  into v_unusual, v_later;
  if v_known is not null then
    v_first := v_known[1];
    v_queue := v_known[cardinality(v_known)];
  elsif p_queues is not null then
    v_first := p_queues;
    v_queue := p_queues;
  else
    select l.first, l.last into v_first, v_queue from ${s}.lane_ends(p_types) l;
  end if;
  v_unusual := v_unusual or v_noted or coalesce(v_later <= v_now, false) or v_first is distinct from v_queue
    or strpos(p_types, ',') > 0 or coalesce(p_queues = '' or strpos(p_queues, ',') > 0, false);
  if not v_unusual then
    q.more := false;
    q.next_due_in := v_later - v_now;
    if v_queue is not null and p_slots + p_ahead > 0 then
      t := ${s}.take_lane(v_now, p_types, v_queue,
        coalesce((string_to_array(p_after, ','))[1:3]::bigint[], array[-2147483648, 0, 0]), p_slots, p_slots + p_ahead);
      v_unusual := t.more is null;
      q.more := t.more;
      if p_after is not null or (t.slow and pg_stat_get_dead_tuples('${s}.pending'::regclass) > ${deadMany}) then
        q.after := array_to_string(t.last, ',') || ',' || v_queue;
      end if;
    end if;
    if cardinality(t.seqs) > 0 then
      v_step := coalesce(v_step, ${s}.begin_step(false));
      select string_agg(b.seq::text, ',') as seqs, string_agg(b.id, ',') as ids,
        string_agg(b.created_at::text, ',') as created, string_agg(b.due_at::text, ',') as due,
        string_agg(b.input, E'\\n') as inputs, count(*) as n, max(b.flags) as flags,
        min(b.priority) = max(b.priority) and min(b.max_attempts) = max(b.max_attempts)
          and min(b.policy) = max(b.policy) as alike,
        min(b.priority)::text || ',' || min(b.max_attempts)::text as ranks,
        (select p.body from ${s}.policies p where p.no = min(b.policy)) as policy
      into g from unnest(t.seqs) x(seq) cross join lateral (
        select j.seq, j.id, j.created_at, j.due_at, j.input, j.flags, j.priority, j.max_attempts, j.policy
        from ${s}.jobs j where j.seq = x.seq offset 0
      ) b;
      if g.flags = 0 and g.alike then
        q.epoch := ${s}.next_epoch(v_now);
        with told as (
          insert into ${s}.events (step, at, name, type, queue, attempt, ids, pending, processing)
          values (v_step, v_now, 'claimed', p_types, v_queue, 1, g.ids, -g.n, g.n)
        )
        insert into ${s}.claims (epoch, due_at, at, max_stalls, open, ahead, plain, owner, types, queues, begun, seqs)
        values (q.epoch, v_now + p_lease_ms, v_now, p_max_stalls, g.n, p_slots + 1, true, p_owner, array[p_types],
          array[v_queue], '{}', t.seqs);
        return next row('plain', g.seqs, g.ids, g.created, g.due, g.inputs, p_types, v_queue, g.ranks, g.policy)::${s}.answer;
      else
        q.step := v_step;
        q := ${s}.let_start(q, v_now, t.seqs);
        v_quiet := v_quiet and q.quiet is not false;
      end if;
    end if;
  end if;
  if v_unusual or q.seqs is not null then
    r := (p_owner, p_types, p_queues, p_slots, p_ahead, p_lease_ms, p_max_stalls, p_after, p_floor)::${s}.claim_request;
    if v_unusual then
      q := ${s}.claim(v_step, v_now, r);
      v_quiet := v_quiet and q.quiet;
      v_step := q.step;
    end if;
    if q.epoch is not null then return query select * from ${s}.record_claim(v_now, q, r); end if;
  end if;`;

/** The last line: the instant, the hints, answers to what came with the claim, the claim itself. */
const lastLine = (s: string, hints: string, answers: string): string => `
  return next row('step', v_now::text, ${hints}, ${answers}, q.epoch::text, q.next_due_in::text, q.more::text, q.after, null,
    null)::${s}.answer;`;

export const exchange = (s: string): string => `
create function ${s}.claim_v1(p_now bigint, p_sender text, p_cap bigint, p_owner text, ${asked}) returns setof ${s}.answer
language plpgsql ${settings} as $$
declare
  v_step bigint;
  v_hints text := '';
${variables(s)}
begin
  ${readCommitted()}
${claimPart(s)}
  if v_step is not null then
    v_hints := ${s}.finish_step(v_step, v_now, p_sender, case when q.ended then p_cap end, false,
      case when v_quiet then 'e' end);
  end if;
${lastLine(s, 'v_hints', 'null')}
end $$;

-- p_locked: all claims in question, by commas. p_epochs, p_counts: of which claims how many completed jobs are in p_places (of
-- each in its claim; null: not known), p_created, p_ids (by commas) and p_results (by newlines), in this order. p_others: JSON of
-- settlements, in the order of the call. p_started: [[epoch, "place,place,…"], …], see begin_jobs. p_policies: of the
-- jobs that follow. p_next: who claims; null: nobody. Answers: place:code of all that are not ok; a p before the place of a completed one, among these.
create function ${s}.settle_v1(
  p_now bigint, p_sender text, p_cap bigint, p_owner text, p_locked text, p_epochs text, p_counts text, p_places text,
  p_created text, p_ids text, p_results text, p_others text, p_started text, p_policies text, p_next text, ${asked}
) returns setof ${s}.answer language plpgsql ${settings} as $$
declare
  v_step bigint := ${s}.begin_step(false);
  v_settled boolean := p_epochs is null;
  v_answers text;
  v_hints text;
${variables(s)}
begin
  ${readCommitted()}
  if p_others is not null then perform ${s}.lock_slots(p_others::json); end if;
  if p_others is not null or p_started is not null then perform ${s}.lock_claims(p_owner, p_locked); end if;
  if p_places is not null then
    v_settled := ${s}.complete_known(v_step, v_now, p_owner, string_to_array(p_epochs, ',')::bigint[],
      string_to_array(p_counts, ',')::int[], p_places, p_created, p_ids, p_results);
  end if;
  if not v_settled then
    perform ${s}.lock_claims(p_owner, p_locked);
    v_answers := ${s}.settle_plain(v_step, v_now, p_owner, string_to_array(p_epochs, ',')::bigint[],
      string_to_array(p_counts, ',')::int[], string_to_array(p_ids, ','), string_to_array(p_results, E'\\n'));
    v_quiet := v_answers is null;
  end if;
  if p_others is not null then
    v_answers := concat_ws(',', nullif(v_answers, ''),
      nullif(${s}.settle_others(v_step, v_now, p_owner, p_others::json, p_policies::json), ''));
    v_quiet := false;
  end if;
  if p_started is not null then
    perform ${s}.begin_jobs((x.value ->> 0)::bigint, p_owner, string_to_array(x.value ->> 1, ','))
    from json_array_elements(p_started::json) x;
  end if;
  -- Turns were given away: the claim looks at them, with those of its own.
  v_noted := not v_quiet and exists (
    select 1 from ${s}.events e where e.no > v_step and e.step = v_step and e.xkey is not null);
  if p_next is not null then
    p_owner := p_next;
${claimPart(s)}
  else
    if v_noted then perform ${s}.mend_noted(v_step, v_now); end if;
    v_quiet := v_quiet and not exists (select 1 from ${s}.limits l where l.concurrency is not null);
  end if;
  v_hints := ${s}.finish_step(v_step, v_now, p_sender, p_cap, false, case when v_quiet then 'e' end);
${lastLine(s, 'v_hints', 'v_answers')}
end $$;

-- In order, so that two steps that meet in several claims do not wait for each other.
create function ${s}.lock_claims(p_owner text, p_epochs text) returns void language plpgsql as $$
begin
  perform 1 from ${s}.claims k where k.owner = p_owner and k.epoch = any(string_to_array(p_epochs, ',')::bigint[])
  order by k.epoch for update;
end $$;

-- Completed jobs of claims on whose jobs nothing hangs: their rows are not looked at, only the claim. False: it is not so, or
-- one of them was settled before, and nothing has happened.
create function ${s}.complete_known(
  p_step bigint, p_now bigint, p_owner text, p_epochs bigint[], p_counts int[], p_places text, p_created text, p_ids text,
  p_results text
) returns boolean language plpgsql as $$
declare
  v_places int[] := string_to_array(p_places, ',')::int[];
  v_created bigint[] := string_to_array(p_created, ',')::bigint[];
  v_results text[] := string_to_array(p_results, E'\\n');
  v_many boolean := cardinality(p_epochs) > 1;
  v_to int := 0;
  v_from int;
  v_seqs bigint[];
  v_ids text;
  v_n int;
  c record;
begin
  for i in 1 .. cardinality(p_epochs) loop
    v_from := v_to + 1;
    v_to := v_to + p_counts[i];
    select k.at, k.open, k.types, k.queues, k.seqs into c from ${s}.claims k
    where k.epoch = p_epochs[i] and k.owner = p_owner and k.plain for update;
    if not found then raise exception 'not plain' using errcode = 'LO002'; end if;
    v_seqs := c.seqs;
    insert into ${s}.done (seq, completed_at, created_at, epoch, started_at, attempts, state, "left", result)
    select v_seqs[x.place], p_now, x.created, p_epochs[i], c.at, 1, 0, ${complete}, x.result
    from unnest(v_places[v_from:v_to], v_created[v_from:v_to], v_results[v_from:v_to]) x(place, created, result)
    -- Who marks a job has locked its claim, so that the mark is seen here.
    where not exists (select 1 from ${s}.marked m where m.epoch = p_epochs[i]);
    get diagnostics v_n = row_count;
    if v_n <> p_counts[i] then raise exception 'marked' using errcode = 'LO002'; end if;
    v_ids := case when v_many then array_to_string((string_to_array(p_ids, ','))[v_from:v_to], ',') else p_ids end;
    insert into ${s}.events (step, at, name, type, queue, attempt, ids, processing, completed)
    values (p_step, p_now, 'completed', c.types[1], c.queues[1], 1, v_ids, -v_n, v_n);
    if v_n = c.open then delete from ${s}.claims k where k.epoch = p_epochs[i];
    else update ${s}.claims k set open = k.open - v_n where k.epoch = p_epochs[i];
    end if;
  end loop;
  return true;
exception when unique_violation or not_null_violation or sqlstate 'LO002' then return false;
end $$;
`;
