/** The one door out: a job goes with all that hangs on it, unless it is held or owns something, and leaves a tombstone. */
import { replacedText } from '../../../core/replaced.js';
import { leavings, stateName } from './end.js';
import { owner } from './own.js';

const tombsMax = 10_000;
const trimmedMax = 2_000;
const lapse = leavings.indexOf('lapse');

export const remove = (s: string): string => `
-- n: how many went; owing: those that stay because they own something.
create type ${s}.gone as (n int, owing bigint[]);

-- Takes a job out of wherever it is.
create function ${s}.remove(p_step bigint, p_now bigint, p_seq bigint, m ${s}.move, p_dry boolean) returns text
language plpgsql as $$
declare
  v_kept text;
  v_place int;
  j ${s}.jobs;
  c ${s}.claims;
begin
  loop
    select b.* into j from ${s}.jobs b where b.seq = p_seq;
    if not found then return 'removed'; end if;
    if ${s}.is_held(j, p_now) then return 'held'; end if;
    if p_dry then
      return coalesce(case when ${s}.state_of(j.seq, j.type, null, p_now) = 'processing' and not m.force then 'not_finished' end,
        ${s}.keeps(p_now, p_seq, true), 'removed');
    end if;
    -- The place first, then the row, whoever comes.
    perform 1 from ${s}.done d where d.seq = p_seq for update;
    if found then
      v_kept := ${s}.keeps(p_now, p_seq, false);
      if v_kept is null then perform ${s}.drop_done(p_step, p_now, array[p_seq], 'removed', m.reason, true); end if;
      return coalesce(v_kept, 'removed');
    end if;
    perform 1 from ${s}.pending p where p.type = j.type and p.seq = p_seq for update;
    if found then
      v_kept := ${s}.keeps(p_now, p_seq, false);
      -- Nobody takes it while what it owns ends.
      if v_kept = 'owing' then perform ${s}.cancel(p_step, p_now, p_seq, m, false); end if;
      if v_kept is not null then return v_kept; end if;
      select b.* into j from ${s}.jobs b where b.seq = p_seq;
      v_place := ${s}.leave_place(p_step, j, p_now, false);
      perform ${s}.drop_live(p_step, p_now, j, v_place, null, m.reason);
      return 'removed';
    end if;
    if not m.force then return 'not_finished'; end if;
    c := ${s}.seize(j);
    if c.epoch is not null then
      v_kept := ${s}.keeps(p_now, p_seq, false);
      if v_kept is not null then return v_kept; end if;
      select b.* into j from ${s}.jobs b where b.seq = p_seq;
      j := ${s}.leave_claim(j, c, ${lapse});
      perform ${s}.drop_live(p_step, p_now, j, null, c.epoch, m.reason);
      return 'removed';
    end if;
  end loop;
end $$;

-- p_place: where it was pending; null: that claim held it, and its handler learns at the next heartbeat, at once in this process.
create function ${s}.drop_live(
  p_step bigint, p_now bigint, j ${s}.jobs, p_place int, p_epoch bigint, p_reason text
) returns void language plpgsql as $$
begin
  delete from ${s}.jobs b where b.seq = j.seq;
  delete from ${s}.lines l where l.seq = j.seq;
  if j.owned_by is null then
    insert into ${s}.tombs (at, epoch, "left", id, type, queue, state, why, reason, print)
    values (p_now, j.epoch, j."left", j.id, j.type, j.queue, 
      case when p_epoch is not null then 'processing' when j.expires_at <= p_now then 'expired' else 'pending' end, 'removed', p_reason,
      coalesce(j.print, ${s}.tomb_print(j.type, j.input)))
    on conflict (id) do nothing;
    perform ${s}.trim_tombs(false);
  end if;
  insert into ${s}.events (step, at, name, type, queue, subject, xkey, ids, left_epoch, pending, delayed, processing, cancel, owned)
  values (p_step, p_now, 'removed', j.type, j.queue, j.subject, case when p_epoch is not null then j.xkey end, j.id, p_epoch, case when p_epoch is null then -1 end,
    case when p_place = 1 then -1 end, case when p_epoch is not null then -1 end, p_epoch is not null,
    case when j.owned_by is not null then -1 end);
end $$;

-- Of finished jobs, whose rows in done are locked, all but those that own something. Those without the mark of an owner
-- are not looked at twice: who ties something to one of them at this moment marks it first.
create function ${s}.remove_done(p_step bigint, p_now bigint, p_seqs bigint[], p_why text) returns ${s}.gone
language plpgsql as $$
declare
  v_rest bigint[];
  g ${s}.gone;
begin
  g.owing := '{}';
  g.n := ${s}.drop_done(p_step, p_now, p_seqs, p_why, null, false);
  if g.n = cardinality(p_seqs) then return g; end if;
  v_rest := array(select b.seq from ${s}.jobs b where b.seq = any(p_seqs) order by b.seq for update skip locked);
  g.owing := array(select b.seq from unnest(v_rest) x(seq)
    cross join lateral (select k.seq, k.id from ${s}.jobs k where k.seq = x.seq offset 0) b
    where exists (select 1 from ${s}.jobs o where o.owned_by = b.id and o.over is null offset 0) order by array_position(p_seqs, b.seq));
  v_rest := array(select x.seq from unnest(p_seqs) x(seq) where x.seq = any(v_rest) and not x.seq = any(g.owing));
  g.n := g.n + ${s}.drop_done(p_step, p_now, v_rest, p_why, null, true);
  return g;
end $$;

-- How many of these finished jobs were still there. p_all: also those that carry the mark of an owner.
create function ${s}.drop_done(
  p_step bigint, p_now bigint, p_seqs bigint[], p_why text, p_reason text, p_all boolean
) returns int language plpgsql set enable_nestloop = off set enable_hashjoin = on as $$
declare
  v_n int;
begin
  if cardinality(p_seqs) = 0 then return 0; end if;
  with job as (
    delete from ${s}.jobs b where b.seq = any(p_seqs) and (p_all or b.flags & ${owner} = 0)
    returning b.seq, b.id, b.type, b.queue, b.subject, b.print, b.input, b.owned_by
  ), line as (
    delete from ${s}.lines l where l.seq = any(array(select j.seq from job j))
  ), ended as (
    delete from ${s}.done d where d.seq = any(array(select j.seq from job j))
    returning d.seq, d.state, d.epoch, d."left", d.completed_at, d.state = 1 and d.error = '${replacedText}' as replaced
  ), gone as materialized (
    select j.*, d.state, d.epoch, d."left", d.completed_at, d.replaced from job j join ended d on d.seq = j.seq
  ), tomb as (
    insert into ${s}.tombs (at, epoch, "left", id, type, queue, state, why, reason, print)
    select p_now, g.epoch, g."left", g.id, g.type, g.queue, ${stateName('g.state')}, p_why, p_reason,
      coalesce(g.print, ${s}.tomb_print(g.type, g.input)) from gone g
    where g.owned_by is null and not exists (select 1 from ${s}.tombs t where t.id = g.id offset 0) order by g.completed_at, g.seq
  ), told as (
    insert into ${s}.events (step, at, name, type, queue, subject, ids, completed, failed, cancelled, expired, replaced)
    select p_step, p_now, 'removed', y.type, y.queue, y.subject, string_agg(y.id, ',' order by y.o),
      -nullif(count(*) filter (where y.state = 0), 0), -nullif(count(*) filter (where y.state = 1), 0),
      -nullif(count(*) filter (where y.state = 2), 0), -nullif(count(*) filter (where y.state = 3), 0),
      -nullif(count(*) filter (where y.replaced), 0)
    from (select g.*, row_number() over (order by g.completed_at, g.seq) as o from gone g) y
    group by y.type, y.queue, y.subject order by min(y.o)
  )
  select count(*) into v_n from gone;
  perform ${s}.trim_tombs(false);
  return v_n;
end $$;

-- One at a time; who comes second leaves it. p_all: also what was left long ago, for which an index is passed over that
-- remembers what has gone until it is vacuumed.
create function ${s}.trim_tombs(p_all boolean) returns void language plpgsql as $$
declare
  v_last bigint := (select t.no from ${s}.tombs t order by t.no desc limit 1);
  v_first bigint := (select t.no from ${s}.tombs t
    where t.no > case when p_all then 0 else v_last - ${tombsMax + 2 * trimmedMax} end order by t.no limit 1);
begin
  if v_first > v_last - ${tombsMax} or not pg_try_advisory_xact_lock('${s}.tombs'::regclass::oid::int4, 0) then return; end if;
  delete from ${s}.tombs t where t.no >= v_first and t.no <= least(v_last - ${tombsMax}, v_first + ${trimmedMax - 1});
end $$;
`;
