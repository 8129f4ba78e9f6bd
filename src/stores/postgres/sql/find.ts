/** Find: which jobs, newest first. Looks at a bounded number of rows: a page may be short and still have a next one. */
import { askedColumns, type KeptName, type RunName, storedNames } from '../../../core/columns.js';
import { systemQueue } from '../../../core/names.js';
import type { StoredJob } from '../../../core/store.js';
import { snake, sqlOf } from './columns.js';
import { states } from './end.js';
import { now, ordered, settings } from './settings.js';

/** Rows that one find may look at, and how many at most in one go. */
const bounds = { examined: 10_000, page: 2_000 } as const;

const stateList = `array[${states.map((state) => `'${state}'`).join(', ')}]`;

/** How a job reads: what came with it from its row, else by these. */
const ofRun = (s: string): Record<RunName | 'policy', string> => ({
  seq: 'j.seq',
  state: `case when d.seq is not null then (${stateList})[d.state + 1] when h.epoch is not null then 'processing'
        when j.expires_at <= p_now then 'expired' else 'pending' end`,
  result: 'd.result',
  error: `case when d.seq is not null then d.error when h.epoch is null and j.expires_at <= p_now
        then ${s}.error_text('EXPIRED', ${s}.expiry(j)) else j.error end`,
  attempts: 'coalesce(d.attempts, j.attempts + case when h.epoch is not null and not h.waiting then 1 else 0 end)',
  stalls: 'j.stalls',
  policy: `(select q.body from ${s}.policies q where q.no = j.policy)`,
  progress: 'j.progress',
  memo: 'j.memo',
  retryOf: 'j.retry_of',
  cancelAt: 'j.cancel_at',
  cancelReason: 'j.cancel_reason',
  heldUntil: 'j.held_until',
  heldReason: 'j.held_reason',
  createdAt: 'j.created_at',
  scheduledFor: 'j.due_at',
  startedAt: `case when d.seq is not null then d.started_at else coalesce(j.started_at, case when not h.waiting then h.at end) end`,
  completedAt: `case when d.seq is not null then d.completed_at when h.epoch is null and j.expires_at <= p_now then j.expires_at end`,
  expiresAt: 'j.expires_at',
  dueAt: `case when d.seq is not null then null when h.epoch is not null then h.due_at when j.expires_at <= p_now then null
        else j.due_at end`,
  epoch: 'coalesce(d.epoch, h.epoch, j.epoch)',
});
const shown = (s: string): string => {
  const texts: Partial<Record<keyof StoredJob, string>> = ofRun(s);
  return storedNames.map((name) => texts[name] ?? `j.${sqlOf(name as KeptName)}`).join(', ');
};

const askedTypes = askedColumns.map(({ name }) => `${snake(name)} text`).join(', ');
const askedChecks = askedColumns
  .map(({ name, column, postgres }) => {
    const value = `f.${snake(name)}`;
    return `(${value} is null or ${postgres(`b.${sqlOf(column)}`, value)})`;
  })
  .join(' and ');

export const find = (s: string): string => `
-- waiting: claimed ahead and not begun.
create type ${s}.holder as (epoch bigint, due_at bigint, at bigint, waiting boolean);
-- All fields must hold; null: any. Lists mean "one of".
create type ${s}.filter as (
  ids text[], states text[], types text[], queues text[], ${askedTypes}, before bigint, after bigint, system boolean
);
create type ${s}.found as (seqs bigint[], next bigint);

-- The claim that holds a job which is neither pending nor finished.
create function ${s}.holder_of(j ${s}.jobs) returns ${s}.holder language plpgsql stable as $$
declare
  h ${s}.holder;
begin
  select c.epoch, c.due_at, c.at, ${s}.waits(c, j.seq) into h from ${s}.claims c
  where j.seq = any(c.seqs) and c.epoch > j.epoch order by c.epoch desc limit 1;
  return h;
end $$;

-- A job as the outside sees it: JSON of its fields, in the order of rows.ts. While a claim holds a job, attempts and
-- startedAt come from the claim: the row is written when the claim is over.
create function ${s}.job_text(j ${s}.jobs, d ${s}.done, h ${s}.holder, p_now bigint) returns text language plpgsql stable as $$
begin
  return (
    select json_build_array(${shown(s)})::text);
end $$;

create function ${s}.state_of(p_seq bigint, p_type text, p_expires_at bigint, p_now bigint) returns text language plpgsql stable as $$
begin
  return (
    select coalesce((select (${stateList})[d.state + 1] from ${s}.done d where d.seq = p_seq),
      (select case when p.expires_at <= p_now then 'expired' else 'pending' end from ${s}.pending p
        where p.type = p_type and p.seq = p_seq), 'processing'));
end $$;

-- Numbers of jobs below p_below, newest first, read along the index that the filter leaves the fewest of; what else it
-- says is asked of each of them. Which index that is, is said by what is sorted by, see matches.ts.
create function ${s}.candidates(f ${s}.filter, p_below bigint, p_now bigint, p_limit int) returns setof bigint
language plpgsql stable ${ordered} as $$
declare
  v_live boolean := f.states is null or 'completed' = any(f.states);
begin
  if f.ids is not null then
    return query select b.seq from (select distinct i.id from unnest(f.ids) i(id)) i
      cross join lateral (select k.seq from ${s}.jobs k where k.id = i.id offset 0) b where b.seq < p_below order by b.seq desc limit p_limit;
  elsif f.subject is not null then
    return query select b.seq from ${s}.jobs b where b.subject between f.subject and f.subject and b.seq < p_below
      order by b.subject desc, b.seq desc limit p_limit;
  elsif f.owned_by is not null then
    return query select b.seq from ${s}.jobs b where b.owned_by between f.owned_by and f.owned_by and b.seq < p_below
      order by b.owned_by desc, b.seq desc limit p_limit;
  elsif f.key is not null and cardinality(f.types) <= 32 and f.states <@ array['pending', 'processing'] then
    return query select x.seq from (select distinct t.type from unnest(f.types) t(type)) t cross join lateral (
        select b.seq from ${s}.jobs b where b.type between t.type and t.type and b.key between f.key and f.key
          and b.over is null and b.seq < p_below order by b.type desc, b.key desc, b.seq desc limit p_limit
      ) x order by x.seq desc limit p_limit;
  elsif f.key is not null then
    return query select b.seq from ${s}.jobs b where b.key between f.key and f.key and b.seq < p_below
      order by b.key desc, b.seq desc limit p_limit;
  elsif not v_live then
    return query select * from ${s}.candidates_by_state(f, p_below, p_now, p_limit);
  elsif cardinality(f.types) <= 32 then
    return query select x.seq from (select distinct t.type from unnest(f.types) t(type)) t cross join lateral (
        select b.seq from ${s}.jobs b where hashtext(b.type) between hashtext(t.type) and hashtext(t.type) and b.type = t.type
          and b.seq < p_below order by hashtext(b.type) desc, b.seq desc limit p_limit
      ) x order by x.seq desc limit p_limit;
  else
    return query select b.seq from ${s}.jobs b where b.seq < p_below order by b.seq desc limit p_limit;
  end if;
end $$;

-- Where completed jobs are not asked for, they are not looked at: they are the many.
create function ${s}.candidates_by_state(f ${s}.filter, p_below bigint, p_now bigint, p_limit int) returns setof bigint
language plpgsql stable ${ordered} as $$
declare
  v_type text := '';
  v_types text[] := '{}';
begin
  if 'pending' = any(f.states) then
    loop
      select p.type into v_type from ${s}.pending p where p.type > v_type order by p.type limit 1;
      exit when not found;
      if f.types is null or v_type = any(f.types) then v_types := v_types || v_type; end if;
    end loop;
  end if;
  return query
  select distinct y.seq from (
    (select x.seq from unnest(v_types) t(type) cross join lateral (
        select p.seq from ${s}.pending p where p.type = t.type and p.seq < p_below order by p.type desc, p.seq desc limit p_limit
      ) x)
    union all
    (select x.seq from unnest(f.states) g(state) cross join lateral (
        select d.seq from ${s}.done d
        where d.state between array_position(${stateList}, g.state) - 1 and array_position(${stateList}, g.state) - 1
          and d.state <> 0 and d.seq < p_below order by d.state desc, d.seq desc limit p_limit
      ) x)
    union all
    (select distinct h.seq from ${s}.claims c cross join lateral unnest(c.seqs) h(seq)
      where 'processing' = any(f.states) and h.seq < p_below order by h.seq desc limit p_limit)
    union all
    (select p.seq from ${s}.pending p where 'expired' = any(f.states) and p.expires_at <= p_now and p.seq < p_below
      order by p.seq desc limit p_limit)
  ) y order by y.seq desc limit p_limit;
end $$;

create function ${s}.search(f ${s}.filter, p_below bigint, p_limit int, p_now bigint) returns ${s}.found
language plpgsql stable as $$
declare
  v_examined int := 0;
  v_page int := least(p_limit + 1, ${bounds.page});
  v_seen int;
  r record;
  t ${s}.found;
begin
  t.seqs := '{}';
  while v_examined < ${bounds.examined} loop
    v_seen := 0;
    for r in
      select c.seq, (f.types is null or b.type = any(f.types)) and (f.queues is null or b.queue = any(f.queues))
          and (f.system or b.queue <> '${systemQueue}') and ${askedChecks}
          and (f.before is null or b.created_at < f.before) and (f.after is null or b.created_at > f.after)
          and (f.states is null or ${s}.state_of(b.seq, b.type, b.expires_at, p_now) = any(f.states)) as passes
      from ${s}.candidates(f, p_below, p_now, v_page) c(seq)
        left join lateral (select j.* from ${s}.jobs j where j.seq = c.seq offset 0) b on true
    loop
      v_seen := v_seen + 1;
      if r.passes and cardinality(t.seqs) = p_limit then
        t.next := p_below;
        return t;
      end if;
      if r.passes then t.seqs := t.seqs || r.seq; end if;
      p_below := r.seq;
    end loop;
    if v_seen < v_page then return t; end if;
    v_examined := v_examined + v_seen;
    v_page := least(v_page * 2, ${bounds.page}, greatest(1, ${bounds.examined} - v_examined));
  end loop;
  t.next := p_below;
  return t;
end $$;

create function ${s}.find_v1(p_now bigint, p_filter text, p_below bigint, p_limit int) returns table (job text, next bigint)
language plpgsql stable ${settings} as $$
declare
  v_now bigint := ${now};
  t ${s}.found;
begin
  t := ${s}.search(json_populate_record(null::${s}.filter, p_filter::json), p_below, p_limit, v_now);
  return query select null::text, t.next where t.next is not null;
  return query
  select ${s}.job_text(b.row, d.row, case when (d.row).seq is null and p.seq is null then ${s}.holder_of(b.row) end, v_now), null::bigint
  from unnest(t.seqs) with ordinality x(seq, o)
    cross join lateral (select k as row, k.seq, k.type from ${s}.jobs k where k.seq = x.seq offset 0) b
    left join lateral (select e as row from ${s}.done e where e.seq = b.seq offset 0) d on true
    left join lateral (select q.seq from ${s}.pending q where q.type = b.type and q.seq = b.seq offset 0) p on true
  order by x.o;
end $$;
`;
