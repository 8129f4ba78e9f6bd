/**
 * Tending, which every claim does first: lapsed claims back, ttl expiry, and what became due. And sweep: the removal of
 * finished jobs by age, by count and by the cap. Each part is bounded; rows that another step has are passed over.
 */
import { leavings } from './end.js';
import { now, settings } from './settings.js';

const promotedMax = 1_000;
const lapsedMax = 20;
/** A claim holds up to a thousand jobs: no more than about so many come back in one step. */
const lapsedJobsMax = 2_000;
const expiredMax = 500;
const looseMax = 500;
const tombsMax = 10_000;
const lapse = leavings.indexOf('lapse');

export const sweep = (s: string): string => `
-- step: null where nothing was to be done.
create type ${s}.tended as (step bigint, lapsed int, expired int, more boolean);

-- What there is to do, in one look. later_at: when the next delayed job is due.
create type ${s}.state as (
  lapsed boolean, expired boolean, loose boolean, paused boolean, limited boolean, later_at bigint
);

create function ${s}.look_around(p_now bigint, p_floor bigint) returns ${s}.state language plpgsql as $$
begin
  return (
    select row(
      exists (select 1 from ${s}.claims c where c.due_at > p_floor and c.due_at <= p_now),
      exists (select 1 from ${s}.pending p where p.expires_at > p_floor and p.expires_at <= p_now),
      exists (select 1 from ${s}.loose), exists (select 1 from ${s}.paused),
      exists (select 1 from ${s}.limits l where l.concurrency is not null or l.rate_max is not null),
      (select p.due_at from ${s}.pending p where p.place = 1 and p.due_at > p_floor order by p.due_at limit 1))::${s}.state);
end $$;

create function ${s}.tend(p_step bigint, p_now bigint, p_floor bigint, w ${s}.state) returns ${s}.tended
language plpgsql as $$
declare
  v_due boolean := coalesce(w.later_at <= p_now, false);
  t ${s}.tended;
begin
  t := (p_step, 0, 0, false);
  if not (w.lapsed or w.expired or w.loose or v_due) then return t; end if;
  t.step := coalesce(p_step, ${s}.begin_step(false));
  if w.lapsed then t.lapsed := ${s}.lapse_claims(t.step, p_now, p_floor); end if;
  if w.expired then t.expired := ${s}.expire_due(t.step, p_now, p_floor); end if;
  if w.loose then perform ${s}.mend_turns(t.step, p_now); end if;
  t.more := t.lapsed < 0 or t.expired = ${expiredMax};
  t.lapsed := abs(t.lapsed);
  if v_due then
    t.more := ${s}.promote(t.step, p_now, p_floor, ${promotedMax}) >= ${promotedMax} or t.more;
  end if;
  return t;
end $$;

-- How many came back; negative: there may be more.
create function ${s}.lapse_claims(p_step bigint, p_now bigint, p_floor bigint) returns int language plpgsql as $$
declare
  v_n int := 0;
  v_jobs int := 0;
  c ${s}.claims;
  j ${s}.jobs;
begin
  while v_n < ${lapsedMax} and v_jobs < ${lapsedJobsMax} loop
    select k.* into c from ${s}.claims k where k.due_at > p_floor and k.due_at <= p_now
    order by k.due_at, k.epoch limit 1 for update skip locked;
    if not found then return v_n; end if;
    v_n := v_n + 1;
    v_jobs := v_jobs + cardinality(c.seqs);
    for j in
      select b.* from unnest(c.seqs) with ordinality x(seq, o) join ${s}.jobs b on b.seq = x.seq
      where b.epoch < c.epoch and not exists (select 1 from ${s}.done d where d.seq = b.seq) order by x.o
    loop
      perform ${s}.lapse_one(p_step, p_now, j, c);
    end loop;
    delete from ${s}.claims k where k.epoch = c.epoch;
    delete from ${s}.marked m where m.epoch = c.epoch;
  end loop;
  return -v_n;
end $$;

create function ${s}.lapse_one(p_step bigint, p_now bigint, j ${s}.jobs, c ${s}.claims) returns void language plpgsql as $$
declare
  v_told text;
begin
  insert into ${s}.events (step, at, name, type, queue, subject, ids)
  values (p_step, p_now, 'stalled', j.type, j.queue, j.subject, j.id);
  if j.cancel_at is not null then
    perform ${s}.end_claimed(p_step, p_now, j, c, ${lapse}, 2, ${s}.error_text('CANCELLED', j.cancel_reason),
      ${s}.told_text('CANCELLED', j.cancel_reason), null);
    return;
  end if;
  if ${s}.waits(c, j.seq) then
    j.wary := true;
    perform ${s}.back_to_pending(p_step, p_now, j, c, ${lapse}, j.due_at);
    return;
  end if;
  j.stalls := j.stalls + 1;
  if j.stalls >= c.max_stalls then
    v_told := 'Its worker went silent ' || j.stalls || case when j.stalls = 1 then ' time' else ' times' end || ' while it ran';
    perform ${s}.end_claimed(p_step, p_now, j, c, ${lapse}, 1, ${s}.error_text('STALLED', v_told),
      ${s}.told_text('STALLED', v_told), null);
    return;
  end if;
  perform ${s}.back_to_pending(p_step, p_now, j, c, ${lapse},
    case when j.stalls >= 2 then p_now + ${s}.parting_ms(j.id, j.stalls) else j.due_at end);
end $$;

-- As partingMs of core/policy.ts. Ids are ASCII.
create function ${s}.parting_ms(p_id text, p_stalls int) returns bigint language plpgsql immutable as $$
declare
  v_sum bigint := p_stalls;
begin
  for i in 1 .. length(p_id) loop
    v_sum := (v_sum * 31 + ascii(substr(p_id, i, 1))) % 1000003;
  end loop;
  return v_sum * 7919 % 1000003 % 30000;
end $$;

create function ${s}.expire_due(p_step bigint, p_now bigint, p_floor bigint) returns int language plpgsql as $$
declare
  v_n int := 0;
  j ${s}.jobs;
begin
  for j in
    select (b.job).* from (
      select p.seq from ${s}.pending p where p.expires_at > p_floor and p.expires_at <= p_now
      order by p.expires_at, p.seq limit ${expiredMax} for update skip locked
    ) x cross join lateral (select k as job from ${s}.jobs k where k.seq = x.seq offset 0) b
  loop
    perform ${s}.expire(p_step, p_now, j, false);
    v_n := v_n + 1;
  end loop;
  return v_n;
end $$;

create function ${s}.mend_turns(p_step bigint, p_now bigint) returns void language plpgsql as $$
declare
  r record;
begin
  for r in
    with gone as (
      delete from ${s}.loose l where l.ctid = any(array(select x.ctid from ${s}.loose x limit ${looseMax} for update skip locked))
      returning l.*
    )
    select distinct g.type, g.queue, g.xkey from gone g order by g.type, g.queue, g.xkey
  loop
    perform ${s}.mend_turn(p_step, p_now, r.type, r.queue, r.xkey);
  end loop;
end $$;

-- p_cap null: no cap. p_retention_ms null: tending only.
create function ${s}.sweep_v1(
  p_now bigint, p_sender text, p_cap bigint, p_limit int, p_retention_ms bigint, p_by_completion boolean, p_most bigint
) returns table (lapsed int, expired int, by_age int, by_count int, by_cap int, more boolean, hints text)
language plpgsql ${settings} as $$
declare
  v_now bigint := ${now};
  v_seqs bigint[];
  t ${s}.tended;
begin
  t := ${s}.tend(null, v_now, 0, ${s}.look_around(v_now, 0));
  lapsed := t.lapsed;
  expired := t.expired;
  more := t.more;
  hints := '';
  by_age := 0;
  by_count := 0;
  by_cap := 0;
  if p_retention_ms is not null then
    t.step := coalesce(t.step, ${s}.begin_step(false));
    by_age := ${s}.remove_done(t.step, v_now, ${s}.over_age(v_now, p_retention_ms, p_by_completion, p_limit));
    by_count := ${s}.remove_done(t.step, v_now, ${s}.over_count(p_limit));
    -- Only finished jobs go, so live ones may keep the number above the cap.
    if p_most is not null then
      by_cap := ${s}.remove_done(t.step, v_now, ${s}.oldest_done(least(${s}.stored() - p_most, p_limit)));
    end if;
    if by_age + by_count + by_cap > 0 then
      insert into ${s}.events (step, at, name) values (t.step, v_now, 'swept');
    end if;
    more := more or p_limit in (by_age, by_count, by_cap);
    perform ${s}.drop_policies(p_limit);
  end if;
  if t.step is not null then hints := ${s}.finish_step(t.step, v_now, p_sender, case when lapsed + expired > 0 then p_cap end, false, null); end if;
  perform ${s}.fold(v_now);
  return next;
end $$;

-- Finished jobs past their age, oldest first.
create function ${s}.over_age(p_now bigint, p_retention_ms bigint, p_by_completion boolean, p_limit int) returns bigint[]
language plpgsql as $$
declare
  v_own bigint[];
  v_other bigint[];
begin
  v_own := array(select d.seq from ${s}.done d where d.go_at < p_now order by d.go_at, d.seq limit p_limit for update skip locked);
  if p_by_completion then
    v_other := array(select d.seq from ${s}.done d where d.keep_ms is null and d.completed_at < p_now - p_retention_ms
      order by d.completed_at, d.seq limit p_limit for update skip locked);
  else
    perform ${s}.index_creation();
    v_other := array(select d.seq from ${s}.done d where d.keep_ms is null and d.created_at < p_now - p_retention_ms
      order by d.created_at, d.seq limit p_limit for update skip locked);
  end if;
  return array(select d.seq from unnest(v_own || v_other) x(seq) join ${s}.done d on d.seq = x.seq
    order by d.completed_at, d.seq limit p_limit);
end $$;

-- The index serves a choice that few make, so it is made when the choice is first acted on; who may not make it reads more.
create function ${s}.index_creation() returns void language plpgsql as $$
begin
  if to_regclass('${s}.done_created') is not null then return; end if;
  create index if not exists done_created on ${s}.done (created_at, seq) where keep_ms is null;
exception when insufficient_privilege then null;
end $$;

-- Finished jobs beyond the newest n of their own count rule. Only groups in which a job has such a rule are looked at.
create function ${s}.over_count(p_limit int) returns bigint[] language plpgsql as $$
declare
  v_type text := '';
  v_state int := -1;
  v_least int;
  v_seqs bigint[] := '{}';
begin
  loop
    select d.type, d.state, d.keep_count into v_type, v_state, v_least from ${s}.done d
    where d.keep_count is not null and (d.type, d.state) > (v_type, v_state)
    order by d.type, d.state, d.keep_count limit 1;
    exit when not found;
    continue when (select count(*) from (
      select 1 from ${s}.jobs b join ${s}.done d on d.seq = b.seq where b.type = v_type and d.state = v_state limit v_least + 1
    ) n) <= v_least;
    v_seqs := v_seqs || array(
      select r.seq from (
        select d.seq, d.completed_at, d.keep_count, row_number() over (order by d.completed_at desc, d.seq desc) as rank
        from ${s}.jobs b join ${s}.done d on d.seq = b.seq where b.type = v_type and d.state = v_state
      ) r where r.rank > r.keep_count order by r.completed_at, r.seq limit p_limit);
  end loop;
  return array(select d.seq from unnest(v_seqs) x(seq) join ${s}.done d on d.seq = x.seq
    order by d.completed_at, d.seq limit p_limit);
end $$;

create function ${s}.oldest_done(p_limit bigint) returns bigint[] language plpgsql as $$
begin
  if p_limit <= 0 then return '{}'; end if;
  return array(select x.seq from (
    select * from (select d.completed_at, d.seq from ${s}.done d where d.keep_ms is null
      order by d.completed_at, d.seq limit p_limit for update skip locked) a
    union all
    select * from (select d.completed_at, d.seq from ${s}.done d where d.keep_ms is not null
      order by d.completed_at, d.seq limit p_limit for update skip locked) b
  ) x order by x.completed_at, x.seq limit p_limit);
end $$;

-- Finished jobs go for good, with all that hangs on them, and leave tombstones. How many were still there.
create function ${s}.remove_done(p_step bigint, p_now bigint, p_seqs bigint[]) returns int language plpgsql as $$
declare
  v_n int;
begin
  if cardinality(p_seqs) = 0 then return 0; end if;
  with gone as (
    delete from ${s}.done d where d.seq = any(p_seqs) returning d.seq, d.state, d.epoch, d."left"
  ), job as (
    delete from ${s}.jobs b using gone g where b.seq = g.seq
    returning b.seq, b.id, b.type, b.queue, b.subject, b.print, b.input, g.state, g.epoch, g."left"
  ), line as (
    delete from ${s}.lines l using gone g where l.seq = g.seq
  ), tomb as (
    insert into ${s}.tombs (at, epoch, "left", id, type, print)
    select p_now, j.epoch, j."left", j.id, j.type, coalesce(j.print, ${s}.tomb_print(j.type, j.input)) from job j
    order by array_position(p_seqs, j.seq) on conflict (id) do nothing
  ), told as (
    insert into ${s}.events (step, at, name, type, queue, subject, ids, completed, failed, cancelled, expired)
    select p_step, p_now, 'removed', y.type, y.queue, y.subject, string_agg(y.id, ',' order by y.o),
      -nullif(count(*) filter (where y.state = 0), 0), -nullif(count(*) filter (where y.state = 1), 0),
      -nullif(count(*) filter (where y.state = 2), 0), -nullif(count(*) filter (where y.state = 3), 0)
    from (select j.*, array_position(p_seqs, j.seq) as o from job j) y
    group by y.type, y.queue, y.subject order by min(y.o)
  )
  select count(*) into v_n from job;
  perform ${s}.trim_tombs();
  return v_n;
end $$;

create function ${s}.trim_tombs() returns void language plpgsql as $$
declare
  v_last bigint := (select t.no from ${s}.tombs t order by t.no desc limit 1);
begin
  delete from ${s}.tombs t where t.no = any(array(
    select x.no from ${s}.tombs x where x.no <= v_last - ${tombsMax} order by x.no limit 2000 for update skip locked));
end $$;
`;
