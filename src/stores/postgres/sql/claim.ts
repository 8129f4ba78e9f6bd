/** Claim and extend: who runs what, until when. */
import { now, readCommitted, settings } from './settings.js';

/** Dead rows in \`pending\` from which on a claim goes on where the last one stopped. */
export const deadMany = 20_000;
/** Queues that such a claim names, so that the next one need not look for them. */
const knownMost = 20;

export const claim = (s: string): string => `
-- What a claim asks for. after: the position of the last claim and the queues it found; floor: nothing that was due up to
-- this instant is waiting. Both are given by a worker that has just looked from the front, in a table with many dead rows.
create type ${s}.claim_request as (
  owner text, types text, queues text, slots int, ahead int, lease_ms bigint, max_stalls int, after text, floor bigint
);
-- quiet: the step did nothing but claim. ended: it ended jobs besides.
create type ${s}.claimed as (
  step bigint, epoch bigint, seqs bigint[], next_due_in bigint, more boolean, after text, quiet boolean, ended boolean
);
-- A line of an answer: what it is, and texts. See rows.ts.
create type ${s}.answer as (kind text, a text, b text, c text, d text, e text, f text, g text, h text, i text);

create function ${s}.claim(p_step bigint, p_now bigint, r ${s}.claim_request) returns ${s}.claimed language plpgsql as $$
declare
  v_floor bigint := coalesce(r.floor, 0);
  v_queues text[] := string_to_array(r.queues, ',');
  v_want int := r.slots + r.ahead;
  v_next bigint;
  v_allowed ${s}.allowance[];
  a ${s}.allowance;
  w ${s}.state := ${s}.look_around(p_now, v_floor);
  d ${s}.tended := ${s}.tend(p_step, p_now, v_floor, w);
  v_lanes text[];
  v_n int;
  v_full boolean := false;
  l ${s}.lanes;
  t ${s}.taken;
  q ${s}.claimed;
begin
  if d.step is not null then perform ${s}.mend_noted(d.step, p_now); end if;
  q.step := d.step;
  q.more := d.more;
  q.ended := d.lapsed + d.expired > 0;
  q.quiet := not w.limited and not w.loose and not q.ended and (w.later_at is null or w.later_at > p_now);
  v_next := w.later_at;
  -- Tending may have ended it, promoted it, or put one before it.
  if w.lapsed or w.expired or w.loose or v_next <= p_now then
    select p.due_at into v_next from ${s}.pending p where p.place = 1 and p.due_at > v_floor order by p.due_at limit 1;
  end if;
  if v_want > 0 and coalesce(cardinality(v_queues), 1) > 0 then
    l := ${s}.lanes_of(string_to_array(r.types, ','), v_queues, w.paused, (string_to_array(r.after, ','))[4:]);
    l.after := coalesce((string_to_array(r.after, ','))[1:3]::bigint[], array[-2147483648, 0, 0]);
    v_lanes := array(select distinct x.queue from unnest(l.queues) x(queue) limit ${knownMost});
  end if;
  if w.limited then
    v_n := cardinality(l.types);
    v_allowed := ${s}.allowed(p_now, v_floor, v_queues, l.queues);
    select array_agg(x.type order by x.o), array_agg(x.queue order by x.o), array_agg(x.room order by x.o)
    into l.types, l.queues, l.rooms from (
      select y.type, y.queue, y.o, (select min(z.room) from unnest(v_allowed) z where z.queue = y.queue) as room
      from unnest(l.types, l.queues) with ordinality y(type, queue, o)
    ) x where x.room is distinct from 0;
    v_full := coalesce(cardinality(l.types), 0) < v_n;
  end if;
  if cardinality(l.types) = 1 and l.rooms[1] is null then
    t := ${s}.take_lane(p_now, l.types[1], l.queues[1], l.after, r.slots, v_want);
  end if;
  if t.more is null and cardinality(l.types) > 0 then
    q.step := coalesce(q.step, ${s}.begin_step(false));
    q.quiet := false;
    if l.rooms is null then l.rooms := array_fill(null::bigint, array[cardinality(l.types)]); end if;
    t := ${s}.take_lanes(q.step, p_now, l, r.slots, v_want);
  end if;
  q.more := q.more or coalesce(t.more, false);
  -- The next claim had better go on from here, where the table is full of dead rows; not beyond what waits for room.
  if not v_full and (r.after is not null or t.slow and pg_stat_get_dead_tuples('${s}.pending'::regclass) > ${deadMany}) then
    q.after := array_to_string(t.last, ',') || ',' || array_to_string(v_lanes, ',');
  end if;
  if cardinality(t.seqs) > 0 then
    q.step := coalesce(q.step, ${s}.begin_step(false));
    q := ${s}.let_start(q, p_now, t.seqs);
  end if;
  foreach a in array coalesce(v_allowed, '{}') loop
    a.starts := ${s}.charge(p_now, a,
      (select count(*) from unnest(q.seqs) x(seq)
        cross join lateral (select j.queue from ${s}.jobs j where j.seq = x.seq offset 0) b where b.queue = a.queue));
    v_next := least(v_next, ${s}.opens_at(a.starts, a.rate_max, a.rate_per_ms));
  end loop;
  q.next_due_in := case when v_next is not null then greatest(0, v_next - p_now) end;
  return q;
end $$;

-- Jobs that were taken become those of a claim, unless they are behind a fence.
create function ${s}.let_start(q ${s}.claimed, p_now bigint, p_seqs bigint[]) returns ${s}.claimed language plpgsql as $$
begin
  q.seqs := ${s}.drop_fenced(q.step, p_now, p_seqs);
  if cardinality(q.seqs) < cardinality(p_seqs) then
    q.more := true;
    q.ended := true;
    q.quiet := false;
  end if;
  q.epoch := case when q.seqs <> '{}' then ${s}.next_epoch(p_now) end;
  return q;
end $$;

-- The allowances of the queues that are asked for. Those from which jobs may be taken now are locked until the commit.
create function ${s}.allowed(p_now bigint, p_floor bigint, p_asked text[], p_ready text[]) returns ${s}.allowance[]
language plpgsql as $$
declare
  v_locked ${s}.allowance[];
  v_all ${s}.allowance[];
begin
  v_locked := array(select x from ${s}.allowances(p_now, p_floor, coalesce(p_ready, '{}'), true) x);
  v_all := array(select x from ${s}.allowances(p_now, p_floor, p_asked, false) x
    where not exists (select 1 from unnest(v_locked) y where y.queue = x.queue));
  return v_locked || v_all;
end $$;

-- Writes the record of a claim and its events, and gives its jobs as their worker gets them. Plain ones by groups of what they
-- have in common, lists separated by commas, inputs by newlines; the others one by one as JSON.
create function ${s}.record_claim(p_now bigint, q ${s}.claimed, r ${s}.claim_request) returns setof ${s}.answer
language plpgsql as $$
declare
  v_types text[] := '{}';
  v_queues text[] := '{}';
  v_n int := 0;
  g record;
begin
  for g in
    select string_agg(b.seq::text, ',' order by x.o) as seqs, string_agg(b.id, ',' order by x.o) as ids,
      string_agg(b.created_at::text, ',' order by x.o) as created, string_agg(b.due_at::text, ',' order by x.o) as due,
      string_agg(b.input, E'\\n' order by x.o) as inputs, b.type, b.queue, b.priority,
      b.max_attempts, b.policy, count(*) as n
    from unnest(q.seqs) with ordinality x(seq, o) cross join lateral (
      select j.seq, j.id, j.created_at, j.due_at, j.input, j.type, j.queue, j.priority, j.max_attempts, j.policy
      from ${s}.jobs j where j.seq = x.seq and j.flags = 0 offset 0
    ) b group by b.type, b.queue, b.priority, b.max_attempts, b.policy order by min(x.o)
  loop
    insert into ${s}.events (step, at, name, type, queue, attempt, ids, pending, processing)
    values (q.step, p_now, 'claimed', g.type, g.queue, 1, g.ids, -g.n, g.n);
    v_n := v_n + g.n;
    if not g.type = any(v_types) then v_types := v_types || g.type; end if;
    if not g.queue = any(v_queues) then v_queues := v_queues || g.queue; end if;
    return next row('plain', g.seqs, g.ids, g.created, g.due, g.inputs, g.type, g.queue, g.priority || ',' || g.max_attempts,
      (select p.body from ${s}.policies p where p.no = g.policy))::${s}.answer;
  end loop;
  if v_n < cardinality(q.seqs) then
    for g in
      select b.job, (b.job).type, (b.job).queue, (b.job).subject, (b.job).attempts + 1 as attempt, (b.job).id
      from unnest(q.seqs) x(seq)
      cross join lateral (select j as job from ${s}.jobs j where j.seq = x.seq and j.flags <> 0 offset 0) b
    loop
      insert into ${s}.events (step, at, name, type, queue, subject, attempt, ids, pending, processing)
      values (q.step, p_now, 'claimed', g.type, g.queue, g.subject, g.attempt, g.id, -1, 1);
      if not g.type = any(v_types) then v_types := v_types || g.type; end if;
      if not g.queue = any(v_queues) then v_queues := v_queues || g.queue; end if;
      return next row('job', ${s}.job_text(g.job, null, row(q.epoch, p_now + r.lease_ms, p_now, false)::${s}.holder, p_now),
        null, null, null, null, null, null, null, null)::${s}.answer;
    end loop;
  end if;
  insert into ${s}.claims (epoch, due_at, at, max_stalls, open, ahead, plain, owner, types, queues, begun, seqs)
  values (q.epoch, p_now + r.lease_ms, p_now, r.max_stalls, cardinality(q.seqs), r.slots + 1,
    v_n = cardinality(q.seqs) and cardinality(v_types) = 1 and cardinality(v_queues) = 1, r.owner, v_types, v_queues, '{}', q.seqs);
end $$;

-- p_claims: [[epoch, "id,id,…", "place,… of those claimed ahead and begun since"], …]; see begin_jobs.
-- p_card: JSON of a row of workers; null leaves it as it is, and takes it away where there are no claims.
create function ${s}.extend_v1(p_now bigint, p_owner text, p_lease_ms bigint, p_claims text, p_card text)
returns table (id text, reason text) language plpgsql ${settings} as $$
declare
  v_now bigint := ${now};
  r record;
  c ${s}.claims;
begin
  ${readCommitted()}
  for r in
    select (x.value ->> 0)::bigint as epoch, string_to_array(x.value ->> 1, ',') as ids,
      string_to_array(x.value ->> 2, ',') as started
    from json_array_elements(p_claims::json) x order by 1
  loop
    if r.started <> '{}' then perform ${s}.begin_jobs(r.epoch, p_owner, r.started); end if;
    update ${s}.claims k set due_at = v_now + p_lease_ms where k.epoch = r.epoch and k.owner = p_owner returning k.* into c;
    return query
    select i.id, case when b.seq is null or c.epoch is null or b.epoch >= c.epoch or d.seq is not null
      or not b.seq = any(c.seqs) then null else b.cancel_reason end
    from unnest(r.ids) with ordinality i(id, o)
      left join lateral (select j.seq, j.epoch, j.cancel_at, j.cancel_reason from ${s}.jobs j where j.id = i.id offset 0) b on true
      left join lateral (select e.seq from ${s}.done e where e.seq = b.seq offset 0) d on true
    where b.cancel_at is not null or b.seq is null or c.epoch is null or b.epoch >= c.epoch or d.seq is not null
      or not b.seq = any(c.seqs)
    order by i.o;
  end loop;
  if p_card is not null then
    insert into ${s}.workers as w (owner, due_at, concurrency, name, types, queues)
    select p_owner, v_now + p_lease_ms, x.concurrency, x.name, x.types, x.queues
    from json_populate_record(null::${s}.workers, p_card::json) x
    on conflict (owner) do update set due_at = excluded.due_at, concurrency = excluded.concurrency, name = excluded.name,
      types = excluded.types, queues = excluded.queues;
  elsif p_claims = '[]' then
    delete from ${s}.workers w where w.owner = p_owner;
  end if;
end $$;

-- Jobs that were claimed ahead have begun: their places in the claim, or #id where the place is not known.
create function ${s}.begin_jobs(p_epoch bigint, p_owner text, p_started text[]) returns void language plpgsql as $$
declare
  c ${s}.claims;
begin
  select k.* into c from ${s}.claims k where k.epoch = p_epoch and k.owner = p_owner for no key update;
  if not found or c.ahead > cardinality(c.seqs) then return; end if;
  c.begun := array(
    select distinct p.place from (
      select case when t.started like '#%' then array_position(c.seqs, (select b.seq from ${s}.jobs b where b.id = substr(t.started, 2)))
        else t.started::int end as place from unnest(p_started) t(started)
      union all select x.place from unnest(c.begun) x(place)
    ) p where p.place >= c.ahead order by p.place);
  -- Mostly they begin in order: then the number of the first that waits says it all.
  c.ahead := c.ahead + (select count(*) from unnest(c.begun) with ordinality x(place, o) where x.place = c.ahead + x.o - 1);
  update ${s}.claims k set ahead = c.ahead, begun = array(select x.place from unnest(c.begun) x(place) where x.place > c.ahead)
  where k.epoch = p_epoch;
end $$;
`;
