/** Audit: of each kind of job, how many there ever were, how many are no more, and whether the others are where they belong. */
import { systemQueue } from '../../../core/names.js';
import { replacedText } from '../../../core/replaced.js';
import { now, settings } from './settings.js';

/** Jobs that need attention, on one page. */
const attentionMax = 100;

export const audit = (s: string): string => `
-- A line for each kind, of jobs below p_below, newest first (null: all, and with the totals). Of lines without a kind, those with a
-- queue say how many of its jobs are in a state (replaced ones are failed, too), and the one without says where to go on.
create function ${s}.read_audit_v2(p_now bigint, p_below bigint, p_limit int)
returns table (kind text, created bigint, released bigint, live bigint, attention text, next bigint, queue text, state text)
language plpgsql stable ${settings} as $$
declare
  v_now bigint := ${now};
  v_below bigint := coalesce(p_below, 9223372036854775807);
  v_last bigint;
  v_held bigint[];
begin
  v_last := (select min(x.seq) from (
    select b.seq from ${s}.jobs b where b.seq < v_below order by b.seq desc limit p_limit) x);
  v_held := array(select distinct h.seq from ${s}.claims c cross join lateral unnest(c.seqs) h(seq)
    cross join lateral (select k.epoch from ${s}.jobs k where k.seq = h.seq offset 0) b
    where h.seq < v_below and h.seq >= v_last and b.epoch < c.epoch);
  return query
  with page as materialized (
    select b.seq, b.id, case when b.queue = '${systemQueue}' then b.type else 'job' end as kind, b.queue,
      case when d.seq is not null then (array['completed', 'failed', 'cancelled', 'expired'])[d.state + 1]
        when b.seq = any(v_held) then 'processing' when p.expires_at <= v_now then 'expired' else 'pending' end as state,
      d.replaced,
      d.seq is null and ((p.seq is null and not b.seq = any(v_held))
        or (b.owned_by is not null and not exists (select 1 from ${s}.jobs o where o.id = b.owned_by offset 0))) as astray
    from (select k.* from ${s}.jobs k where k.seq < v_below order by k.seq desc limit p_limit) b
    left join lateral (select k.seq, k.expires_at from ${s}.pending k where k.type = b.type and k.seq = b.seq offset 0) p on true
    left join lateral (select k.seq, k.state, k.state = 1 and k.error = '${replacedText}' as replaced from ${s}.done k where k.seq = b.seq offset 0) d on true
    order by b.seq desc
  ), counted as (
    select g.*, count(*) filter (where g.astray) over (order by g.seq desc) as nth from page g
  ), seen as materialized (
    select g.* from counted g where g.nth < ${attentionMax} or (g.nth = ${attentionMax} and g.astray)
  ), told as (
    select g.kind, count(*) filter (where not g.astray) as live, string_agg(g.id, ',' order by g.seq desc) filter (where g.astray) as attention
    from seen g group by g.kind
  ), ever as (
    select e.kind, e.created, e.released from ${s}.ever e where p_below is null
  )
  select coalesce(t.kind, e.kind), coalesce(e.created, 0), coalesce(e.released, 0), coalesce(t.live, 0), t.attention, null::bigint, null::text, null::text
  from told t full join ever e on e.kind = t.kind
  union all
  select null, null, null, count(*), null, null, g.queue, g.state from seen g group by g.queue, g.state
  union all
  select null, null, null, count(*), null, null, g.queue, 'replaced' from seen g where g.replaced group by g.queue
  union all
  select null, null, null, null, null, (select min(g.seq) from seen g), null, null
  where exists (select 1 from ${s}.jobs b where b.seq < (select min(g.seq) from seen g) order by b.seq desc limit 1);
end $$;
`;
