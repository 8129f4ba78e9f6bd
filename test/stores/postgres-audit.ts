// What must hold of the tables at any moment, whatever is under way: asked of one snapshot.
import type pg from 'pg';
import { replacedText } from '../../src/core/replaced.js';

const view = `
with held as (
  select h.seq, max(c.epoch) as epoch from lastout.claims c cross join lateral unnest(c.seqs) h(seq) group by h.seq
), job as (
  select b.seq, b.id, b.type, b.queue, b.xkey, b.slot, b.key, b.over, b.owned_by, p.place, d.state,
    d.state = 1 and d.error = '${replacedText}' as replaced,
    case when p.seq is null and d.seq is null and h.epoch > b.epoch then h.epoch end as epoch
  from lastout.jobs b left join lastout.pending p on p.type = b.type and p.seq = b.seq
    left join lastout.done d on d.seq = b.seq left join held h on h.seq = b.seq
), counted as (
  select queue, count(place) as pending, count(*) filter (where place = 1) as delayed, count(epoch) as processing,
    count(*) filter (where state = 0) as completed, count(*) filter (where state = 1) as failed,
    count(*) filter (where state = 2) as cancelled, count(*) filter (where state = 3) as expired,
    count(owned_by) filter (where state is null) as owned, count(*) filter (where replaced) as replaced
  from job group by queue
), told as (
  select * from lastout.sums
  where (pending, delayed, processing, completed, failed, cancelled, expired, owned, replaced) <> (0, 0, 0, 0, 0, 0, 0, 0, 0)
), kinds as (
  select case when queue = 'lastout' then type else 'job' end as kind, count(*) as live from job group by 1
)`;

/** Each names what is wrong. */
const faults: { readonly [fault: string]: string } = {
  'a job is not in exactly one place': `select id from job
    where (place is not null)::int + (state is not null)::int + (epoch is not null)::int <> 1`,
  'a pending row has no job': `select p.seq::text from lastout.pending p
    where not exists (select 1 from lastout.jobs b where b.seq = p.seq and b.type = p.type and b.queue = p.queue
      and b.due_at = p.due_at and b.priority = p.priority and b.expires_at is not distinct from p.expires_at)`,
  'a finished row has no job': `select d.seq::text from lastout.done d
    where not exists (select 1 from lastout.jobs b where b.seq = d.seq)`,
  'a job with a key is not where a new one would look': `select id from job
    where key is not null and (over is not null) <> (state is not null)`,
  'two jobs have the turn of one exclusive key': `select min(id) || ' ' || max(id) from job
    where xkey is not null and (place = 0 or epoch is not null) group by type, queue, xkey having count(*) > 1`,
  'a job is behind a turn that nobody has': `select j.id from job j where j.place = 2
    and not exists (select 1 from lastout.turns t where (t.type, t.queue, t.xkey) = (j.type, j.queue, j.xkey))
    and not exists (select 1 from lastout.loose l where (l.type, l.queue, l.xkey) = (j.type, j.queue, j.xkey))`,
  'a turn is with a job that does not use it': `select t.xkey from lastout.turns t where not exists (
      select 1 from job j where j.seq = t.seq and (j.place = 0 or j.epoch is not null))
    and not exists (select 1 from lastout.loose l where (l.type, l.queue, l.xkey) = (t.type, t.queue, t.xkey))`,
  'a claim counts other jobs than it holds': `select c.epoch::text from lastout.claims c
    where c.open <> (select count(*) from job j where j.epoch = c.epoch)`,
  'a mark has no claim': `select m.epoch::text from lastout.marked m
    where not exists (select 1 from lastout.claims c where c.epoch = m.epoch)`,
  'a job is owned by one that is not there': `select id from job j where owned_by is not null and state is null
    and not exists (select 1 from lastout.jobs o where o.id = j.owned_by and o.flags & 8 <> 0)`,
  'a finished row is not held as its job is': `select d.seq::text from lastout.done d join lastout.jobs b on b.seq = d.seq
    where d.held_until is distinct from b.held_until`,
  'the totals are not those of the jobs': `select e.kind || k.kind || ' ' || e || ' ' || k
    from lastout.ever e full join kinds k on k.kind = e.kind
    where coalesce(e.created, 0) - coalesce(e.released, 0) <> coalesce(k.live, 0)`,
  'the counts are not those of the jobs': `select t.queue || c.queue || ' ' || t || ' ' || c
    from told t full join counted c on c.queue = t.queue where t.* is distinct from c.*`,
};

const query = `${view} ${Object.entries(faults)
  .map(([fault, rows]) => `select '${fault}' as fault, (${rows.trim()} limit 1)::text as example`)
  .map((one) => `select * from (${one}) x where example is not null`)
  .join(' union all ')}`;

/** What is wrong, with an example each; empty: nothing. */
export async function faultsIn(client: pg.Client | pg.Pool): Promise<string[]> {
  const { rows } = await client.query<{ fault: string; example: string }>(query);
  return rows.map(({ fault, example }) => `${fault}: ${example}`);
}

/** Rows that are left in tables which are empty when all is done. */
export async function leftovers(client: pg.Client | pg.Pool): Promise<{ [table: string]: number }> {
  const tables = ['jobs', 'pending', 'done', 'claims', 'turns', 'loose', 'marked', 'lines'];
  const counts = tables.map((table) => `select '${table}' as name, count(*)::int as n from lastout.${table}`);
  const { rows } = await client.query<{ name: string; n: number }>(counts.join(' union all '));
  return Object.fromEntries(rows.filter(({ n }) => n > 0).map(({ name, n }) => [name, n]));
}
