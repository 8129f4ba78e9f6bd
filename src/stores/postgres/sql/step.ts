/**
 * One step of a verb: its number, what it appends to `events`, and the hints to give once it is committed. Everything that
 * happens in a step is a row of `events`; a row without a name changes counts and tells nobody.
 */
import { systemQueue } from '../../../core/names.js';

/** The channel on which processes hear each other's hints: the name of the schema. */
const channelOf = (s: string): string => s.slice(1, -1);

/** Rows of `events` beyond these go, once their counts are folded. */
const kept = { rows: 20_000, ms: 600_000 } as const;

/** What a row of `events` counts for: 'job', or of the library's own queue the type. */
const kind = `case when e.queue = '${systemQueue}' then e.type else 'job' end`;
const created = `case when e.name = 'created' then e.pending else 0 end`;
const released = `case when e.name = 'removed' then -(coalesce(e.pending, 0) + coalesce(e.processing, 0) + coalesce(e.completed, 0)
        + coalesce(e.failed, 0) + coalesce(e.cancelled, 0) + coalesce(e.expired, 0)) else 0 end`;

export const step = (s: string): string => `
-- Before a number is drawn from event_no, a lock says from where on numbers of this transaction may come; so a reader
-- knows below which number all is decided. In a transaction of a caller, the lock of its first step serves them all.
create function ${s}.begin_step(p_inside boolean) returns bigint language plpgsql as $$
declare
  v_from bigint := coalesce(pg_sequence_last_value('${s}.event_no'::regclass), 0) + 1;
  -- What is assigned costs a fraction of what is performed.
  v_void text;
begin
  if p_inside then
    if current_setting('lastout.step_' || '${s}.events'::regclass::oid::text, true) = '1' then return nextval('${s}.event_no'); end if;
    v_void := set_config('lastout.step_' || '${s}.events'::regclass::oid::text, '1', true);
  end if;
  v_void := pg_advisory_xact_lock_shared('${s}.events'::regclass::oid::int4, (v_from & 2147483647)::int4)::text;
  return nextval('${s}.event_no');
end $$;

-- All numbers below it belong to transactions that have ended. The numbers of locks are remainders, near the last number.
create function ${s}.decided() returns bigint language plpgsql as $$
declare
  v_next bigint := coalesce(pg_sequence_last_value('${s}.event_no'::regclass), 0) + 1;
  v_behind bigint;
begin
  select max(b.n) into v_behind
  from pg_locks l, lateral (select ((v_next & 2147483647) - l.objid::bigint + 2147483648) & 2147483647 as n) b
  where l.locktype = 'advisory' and l.classid = '${s}.events'::regclass::oid and l.objsubid = 2 and l.granted
    and l.database = (select d.oid from pg_database d where d.datname = current_database()) and b.n < 1073741824;
  return v_next - coalesce(v_behind, 0);
end $$;

-- Adds what is decided to the counts, and trims the log. One at a time; who comes second leaves it.
create function ${s}.fold(p_now bigint) returns void language plpgsql as $$
declare
  v_from bigint;
  v_trimmed bigint;
  v_until bigint;
begin
  select m.no into v_from from ${s}.marks m where m.name = 'folded' for update skip locked;
  if not found then return; end if;
  v_until := ${s}.decided() - 1;
  if v_until > v_from then
    insert into ${s}.counts as c
      (queue, kind, created, released, owned, pending, delayed, processing, completed, failed, cancelled, expired, replaced)
    select e.queue, ${kind}, sum(${created}), sum(${released}), coalesce(sum(e.owned), 0), coalesce(sum(e.pending), 0), coalesce(sum(e.delayed), 0), coalesce(sum(e.processing), 0),
      coalesce(sum(e.completed), 0), coalesce(sum(e.failed), 0), coalesce(sum(e.cancelled), 0), coalesce(sum(e.expired), 0),
      coalesce(sum(e.replaced), 0)
    from ${s}.events e where e.no > v_from and e.no <= v_until and e.queue is not null
    group by 1, 2 order by 1, 2
    on conflict (queue, kind) do update set created = c.created + excluded.created,
      released = c.released + excluded.released, owned = c.owned + excluded.owned, pending = c.pending + excluded.pending, delayed = c.delayed + excluded.delayed,
      processing = c.processing + excluded.processing, completed = c.completed + excluded.completed,
      failed = c.failed + excluded.failed, cancelled = c.cancelled + excluded.cancelled,
      expired = c.expired + excluded.expired, replaced = c.replaced + excluded.replaced;
    with gone as (
      delete from ${s}.counts c where c.pending = 0 and c.delayed = 0 and c.processing = 0 and c.completed = 0
        and c.failed = 0 and c.cancelled = 0 and c.expired = 0 and c.replaced = 0 returning c.kind, c.created, c.released
    )
    insert into ${s}.totals as t (kind, created, released)
    select g.kind, sum(g.created), sum(g.released) from gone g group by g.kind
    on conflict (kind) do update set created = t.created + excluded.created, released = t.released + excluded.released;
    update ${s}.marks set no = v_until where name = 'folded';
  end if;
  v_until := greatest(v_from, v_until);
  select m.no into v_trimmed from ${s}.marks m where m.name = 'trimmed';
  select least(v_until, greatest(v_until - ${kept.rows}, coalesce((
    select e.no - 1 from ${s}.events e where e.no > v_trimmed and e.at > p_now - ${kept.ms} order by e.no limit 1
  ), v_until))) into v_until;
  if v_until > v_trimmed then
    -- Not every number has a row: only what is gone can be missed.
    with gone as (delete from ${s}.events e where e.no > v_trimmed and e.no <= v_until returning e.no)
    update ${s}.marks m set no = g.no from (select max(gone.no) as no from gone) g where m.name = 'trimmed' and g.no is not null;
  end if;
end $$;

-- How many jobs each queue has in which state: the folded sums, and the rows since.
create view ${s}.sums as
  select a.queue, sum(a.pending)::bigint as pending, sum(a.delayed)::bigint as delayed,
    sum(a.processing)::bigint as processing, sum(a.completed)::bigint as completed, sum(a.failed)::bigint as failed,
    sum(a.cancelled)::bigint as cancelled, sum(a.expired)::bigint as expired, sum(a.owned)::bigint as owned,
    sum(a.replaced)::bigint as replaced
  from (
    select c.queue, c.pending, c.delayed, c.processing, c.completed, c.failed, c.cancelled, c.expired, c.owned, c.replaced
    from ${s}.counts c
    union all
    select e.queue, coalesce(e.pending, 0), coalesce(e.delayed, 0), coalesce(e.processing, 0), coalesce(e.completed, 0),
      coalesce(e.failed, 0), coalesce(e.cancelled, 0), coalesce(e.expired, 0), coalesce(e.owned, 0), coalesce(e.replaced, 0)
    from ${s}.events e
    where e.no > (select m.no from ${s}.marks m where m.name = 'folded') and e.queue is not null
  ) a group by a.queue;

-- How many of each kind there ever were, and how many of them are no more.
create view ${s}.ever as
  select a.kind, sum(a.created)::bigint as created, sum(a.released)::bigint as released
  from (
    select t.kind, t.created, t.released from ${s}.totals t
    union all select c.kind, c.created, c.released from ${s}.counts c
    union all select ${kind}, ${created}, ${released} from ${s}.events e
    where e.no > (select m.no from ${s}.marks m where m.name = 'folded') and e.name in ('created', 'removed')
  ) a group by a.kind;

-- All but live jobs that another one owns: these come and go with it.
create function ${s}.stored() returns bigint language plpgsql stable as $$
begin
  return (
    select coalesce(sum(t.pending + t.processing + t.completed + t.failed + t.cancelled + t.expired - t.owned), 0)::bigint
    from ${s}.sums t);
end $$;

-- Writes what the step gathered, and says what it has to tell: words as in core/hints.ts. The last thing before the commit.
-- p_known: the words, where the step did nothing but what they say.
create function ${s}.finish_step(
  p_step bigint, p_now bigint, p_sender text, p_cap bigint, p_inside boolean, p_known text
) returns text language plpgsql as $$
declare
  v_line text := p_known;
  v_void text;
begin
  if p_known is null then v_line := ${s}.words_of(p_step, p_now); end if;
  if p_cap is not null then
    if ${s}.stored() > p_cap then v_line := concat_ws(' ', 'k', nullif(v_line, '')); end if;
  end if;
  if v_line <> '' then v_void := ${s}.notify(p_sender, split_part(v_line, ' s:', 1))::text; end if;
  if not p_inside and p_step % 64 = 0 then perform ${s}.fold(p_now); end if;
  return v_line;
end $$;

create function ${s}.words_of(p_step bigint, p_now bigint) returns text language plpgsql as $$
declare
  v_ready text;
  v_later bigint;
  v_cancel boolean;
  v_events boolean;
  v_stalled boolean;
  v_left bigint[];
begin
  select string_agg(distinct e.type, ',') filter (where e.ready), min(e.later_at), bool_or(e.cancel),
    bool_or(e.name is not null), bool_or(e.name = 'stalled'),
    array_agg(distinct e.left_epoch) filter (where e.left_epoch is not null)
  into v_ready, v_later, v_cancel, v_events, v_stalled, v_left
  from ${s}.events e where e.no > p_step and e.step = p_step;
  if v_left is not null then perform ${s}.close_claims(p_step); end if;
  -- A slot was given back that was not taken again, in a queue where others may wait for one.
  if exists (select 1 from ${s}.limits l where l.concurrency is not null) and exists (
    select 1 from ${s}.events e join ${s}.limits l on l.queue = e.queue and l.concurrency is not null
    where e.no > p_step and e.step = p_step group by e.queue having sum(e.processing) < 0
  ) then v_ready := '*'; end if;
  return concat_ws(' ', 'r:' || v_ready,
    case when v_later is not null then 'l:' || greatest(0, v_later - p_now)::text end,
    case when v_cancel then 'c' end, case when v_events then 'e' end,
    case when v_stalled then ${s}.ended_stalled(p_step) end);
end $$;

-- What stalled and failed in one step has failed by that: for the caller alone, as in core/hints.ts. The job may be gone already;
-- how often it stalled is the number in its error.
create function ${s}.ended_stalled(p_step bigint) returns text language plpgsql as $$
begin
  return (
    select string_agg('s:' || e.ids || ',' || e.type || ',' || substring(e.error from '[0-9]+'), ' ' order by e.no)
    from ${s}.events e
    where e.no > p_step and e.step = p_step and e.name = 'failed' and e.ids in (
      select x.ids from ${s}.events x where x.no > p_step and x.step = p_step and x.name = 'stalled'));
end $$;

-- Of the claims that jobs have left in this step, those go that hold none any more.
create function ${s}.close_claims(p_step bigint) returns void language plpgsql as $$
begin
  delete from ${s}.claims c using (
    select e.left_epoch, sum(e.processing) as n from ${s}.events e
    where e.no > p_step and e.step = p_step and e.left_epoch is not null group by e.left_epoch
  ) x where c.epoch = x.left_epoch and c.open + x.n <= 0;
  delete from ${s}.marked m where m.epoch in (
    select e.left_epoch from ${s}.events e where e.no > p_step and e.step = p_step and e.left_epoch is not null
  ) and not exists (select 1 from ${s}.claims c where c.epoch = m.epoch offset 0);
  update ${s}.claims c set open = c.open + x.n, plain = false from (
    select e.left_epoch, sum(e.processing) as n from ${s}.events e
    where e.no > p_step and e.step = p_step and e.left_epoch is not null group by e.left_epoch
  ) x where c.epoch = x.left_epoch;
end $$;

-- Locks of names that have no row, until the commit: types as p_of turns, the room of queues as p_of limits. Always in one order.
create function ${s}.lock_names(p_of regclass, p_names text[]) returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock(p_of::oid::int4, h.no)
  from (select distinct hashtext(t.name) as no from unnest(p_names) t(name) order by 1) h;
end $$;

-- The same without waiting. False: somebody has one of them.
create function ${s}.try_names(p_of regclass, p_names text[]) returns boolean language plpgsql as $$
begin
  return not exists (
    select 1 from (select distinct hashtext(t.name) as no from unnest(p_names) t(name) order by 1) h
    where not pg_try_advisory_xact_lock(p_of::oid::int4, h.no));
end $$;

create function ${s}.notify(p_sender text, p_line text) returns void language sql as $$
  select pg_notify('${channelOf(s)}', case when length(p_line) < 7000 then p_sender || ' ' || p_line else p_sender || ' r:* e' end)
$$;
`;
