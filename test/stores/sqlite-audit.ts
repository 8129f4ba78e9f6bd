// What must hold of the tables at any moment, whatever is under way: asked of one snapshot.
import { prepare, type SqliteDatabase } from '../../src/stores/sqlite/driver.js';

const view = `
with number as (
  select ifnull(sum(iif(name = 'seq', n, 0)), 0) as counter, ifnull(sum(iif(name = 'open', n, 0)), 0) as open
  from lastout_counts where part = ''
), held as (
  select s.value as seq, max(c.epoch) as epoch from lastout_claims c cross join json_each(c.seqs) s group by s.value
), job as materialized (
  select j.seq, j.id, j.type, j.queue, j.policy, coalesce(j.key, j.subject) as sought, j.ended, p.place, d.state,
    j.rest ->> 'exclusiveKey' as xkey,
    n.open > 0 and j.seq > n.counter as joined,
    case when p.seq is null and d.seq is null and h.epoch > ifnull(j.rest ->> 'epoch', 0) then h.epoch end as epoch
  from lastout_jobs j cross join number n left join lastout_pending p on p.type = j.type and p.last >= j.seq
      and p.seq = (select max(r.seq) from lastout_pending r where r.type = j.type and r.seq <= j.seq)
    left join lastout_done d on d.seq = j.seq left join held h on h.seq = j.seq
), counted as (
  select 'pending' as name, queue as part, count(*) as n from job where place is not null and not joined group by queue
  union all select 'delayed', queue, count(*) from job where place = 1 group by queue
  union all select 'processing', queue, count(*) from job where epoch is not null group by queue
  union all select case state when 0 then 'completed' when 1 then 'failed' when 2 then 'cancelled' else 'expired' end,
    queue, count(*) from job where state is not null group by state, queue
  union all select 'replaced', j.queue, count(*) from lastout_done d cross join lastout_jobs j on j.seq = d.seq
    where d.rest ->> 'replaced' group by j.queue
  union all select 'uses', cast(policy as text), count(*) from job where not joined group by policy
  union all select 'stored', '', n from (select count(*) as n from job where not joined) where n > 0
), told as (
  select name, part, n from lastout_counts where name not in ('seq', 'epoch', 'policy', 'created', 'released', 'open')
)`;

/** Each names what is wrong. */
const faults: { readonly [fault: string]: string } = {
  'a job is not in exactly one place': `select id from job group by seq
    having sum((place is not null) + (state is not null) + (epoch is not null)) <> 1`,
  'a pending row has no job': `select p.seq from lastout_pending p cross join number n
    where iif(n.open between p.seq and p.last, (select max(seq) from lastout_jobs), p.last) - p.seq + 1 <> (select count(*) from lastout_jobs j where j.seq between p.seq and p.last
      and j.type = p.type and j.queue = p.queue and j.due_at = p.due_at and j.priority = p.priority
      and j.rest ->> 'expiresAt' is p.expires_at)`,
  'a run has jobs that are not plain, or not ready': `select p.seq from lastout_pending p where p.last > p.seq
    and (p.place <> 0 or coalesce(p.slot, p.xkey, p.expires_at) is not null)`,
  'a run is open that is not the newest, or keeps no numbers': `select open from number where open > 0
    and not exists (select 1 from lastout_pending where place = 0 and seq = open and counter between seq and last - 1)`,
  'a job that was not counted has joined no open run': `select j.id from lastout_jobs j cross join number n
    where j.seq > n.counter and not exists (select 1 from lastout_jobs o cross join lastout_pending p
      on p.place = 0 and p.seq = n.open and p.last >= j.seq
      where o.seq = n.counter and (o.type, o.queue, o.priority, o.due_at, o.policy)
        = (j.type, j.queue, j.priority, j.due_at, j.policy))`,
  'a finished row has no job': `select seq from lastout_done where seq not in (select seq from lastout_jobs)`,
  'a job with a key is not where a new one would look': `select id from job
    where sought is not null and ended <> (state is not null)`,
  'two jobs have the turn of one exclusive key': `select min(id) || ' ' || max(id) from job
    where xkey is not null and (place = 0 or epoch is not null) group by type, queue, xkey having count(*) > 1`,
  'a job is behind a turn that nobody has': `select j.id from job j where j.place = 2
    and not exists (select 1 from lastout_turns t where (t.type, t.queue, t.xkey) = (j.type, j.queue, j.xkey))`,
  'a turn is with a job that does not use it': `select t.xkey from lastout_turns t where not exists (
      select 1 from job j where j.seq = t.seq and (j.place = 0 or j.epoch is not null))`,
  'a claim counts other jobs than it holds': `select c.epoch from lastout_claims c
    where c.open <> (select count(*) from job j where j.epoch = c.epoch)`,
  'a policy is not there as long as its jobs': `select no from lastout_policies where no not in (select policy from job)
    union all select policy from job where policy not in (select no from lastout_policies)`,
  'the totals are not those of the jobs': `select 'job' where (select count(*) from job where not joined) <>
    (select ifnull(sum(iif(name = 'created', n, -n)), 0) from lastout_counts where name in ('created', 'released'))`,
  'the counts are not those of the jobs': `select name || ' ' || part from (
      select * from (select * from told except select * from counted)
      union all select * from (select * from counted except select * from told))`,
};

const query = `${view} ${Object.entries(faults)
  .map(([fault, rows]) => `select '${fault}: ' || (select * from (${rows}) limit 1) as example`)
  .map((one) => `select * from (${one}) where example is not null`)
  .join(' union all ')}`;

/** What is wrong, with an example each; empty: nothing. */
export function faultsIn(db: SqliteDatabase): string[] {
  return columnOf(db, query);
}

/** Tables with rows although no job is left; of the counts, those that only grow stay. */
export function leftovers(db: SqliteDatabase): string[] {
  const tables = ['jobs', 'pending', 'done', 'claims', 'turns', 'lines', 'owned', 'holds', 'policies'];
  const filled = tables.map((table) => `select '${table}' as name where exists (select 1 from lastout_${table})`);
  return columnOf(db, `${view} ${[...filled, 'select name from told'].join(' union all ')}`);
}

function columnOf(db: SqliteDatabase, text: string): string[] {
  const rows = prepare(db, text).all();
  return rows.map(([value]) => String(value));
}
