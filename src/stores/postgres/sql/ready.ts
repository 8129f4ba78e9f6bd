/**
 * The first ready jobs of some lanes, strictly by priority, due_at and seq, taken out of their place. Which rows come first
 * is read from the index, without a lock; then each is locked, and passed over where somebody else has it.
 */
import { systemQueue } from '../../../core/names.js';
import { hashBounds, isQueue, isType, ordered, queueHash } from './settings.js';

/** Jobs past their ttl that one claim may end. */
const expiredMax = 500;
/** A look at the front of a lane that takes longer has passed over very many dead rows. */
const slowMs = 4;

export const ready = (s: string): string => `
-- A lane is a type in a queue. after: everything up to this position (priority, due_at, seq) was looked at before.
create type ${s}.lanes as (types text[], queues text[], rooms bigint[], after bigint[]);
-- last: the position of the last one that was looked at. slow: it took long to find the first ones.
create type ${s}.taken as (seqs bigint[], more boolean, last bigint[], slow boolean);

-- The first and the last queue in which jobs of a type are ready, in the order of the index.
create function ${s}.lane_ends(p_type text, out first text, out last text) language plpgsql ${ordered} as $$
begin
  select (select p.queue from ${s}.pending p where p.place = 0 and ${isType('p.type', 'p_type')}
      order by ${queueHash('p.queue')} limit 1),
    (select p.queue from ${s}.pending p where p.place = 0 and ${isType('p.type', 'p_type')}
      order by ${queueHash('p.queue')} desc limit 1)
  into lane_ends.first, lane_ends.last;
end $$;

-- The lanes that a claim may look at, given what is paused (the words of core/pauses.ts). p_known: queues that are
-- taken for lanes unseen, because to see one is to pass over the dead rows at its front.
create function ${s}.lanes_of(p_types text[], p_queues text[], p_any_paused boolean, p_known text[]) returns ${s}.lanes
language plpgsql ${ordered} as $$
declare
  v_paused text[] := '{}';
  v_type text;
  v_found text[];
  l ${s}.lanes;
begin
  l.types := '{}';
  l.queues := '{}';
  if p_any_paused then
    v_paused := array(select p.queue from ${s}.paused p);
    if '*' = any(v_paused) then
      p_queues := array(select w.queue from (
        select '${systemQueue}' as queue union all select substr(v.word, 2) from unnest(v_paused) v(word) where v.word like '+%'
      ) w where p_queues is null or w.queue = any(p_queues));
    end if;
  end if;
  for v_type in select distinct t.type collate "C" from unnest(p_types) t(type) loop
    if p_queues is null then
      v_found := array(
        -- One seek per queue: nothing between the heads of two lanes is read.
        with recursive lane(queue, hash) as (
          select ''::text collate "C", ${hashBounds.below}
          union all
          select n.queue, coalesce(${queueHash('n.queue')}, k.hash)
          from lane cross join lateral (
            select min(${queueHash('k.queue')}) as hash from unnest(p_known) k(queue) where ${queueHash('k.queue')} > lane.hash
          ) k left join lateral (
            select p.queue from ${s}.pending p where p.place = 0 and ${isType('p.type', 'v_type')}
              and ${queueHash('p.queue')} > lane.hash and ${queueHash('p.queue')} < coalesce(k.hash, ${hashBounds.above})
            order by ${queueHash('p.queue')} limit 1
          ) n on true where lane.hash is not null
        )
        select x.queue from (select lane.queue from lane union all select k.queue from unnest(p_known) k(queue)) x
        where x.queue > '' and x.queue <> all(v_paused));
    else
      v_found := array(select distinct q.queue collate "C" from unnest(p_queues) q(queue)
        where q.queue > '' and q.queue <> all(v_paused));
    end if;
    l.types := l.types || array_fill(v_type, array[cardinality(v_found)]);
    l.queues := l.queues || v_found;
  end loop;
  return l;
end $$;

-- Of one lane without a limit, the common case. Null: jobs past their ttl stand in between.
create function ${s}.take_lane(p_now bigint, p_type text, p_queue text, p_after bigint[], p_slots int, p_want int)
returns ${s}.taken language plpgsql ${ordered} as $$
declare
  v_tids tid[];
  v_dear boolean[];
  v_expiry bigint;
  v_n int;
  v_began timestamptz := clock_timestamp();
  t ${s}.taken;
begin
  with c as materialized (
    select p.ctid as tid, p.seq, p.expires_at, p.dear, p.priority, p.due_at from ${s}.pending p
    where p.place = 0 and ${isType('p.type', 'p_type')} and ${isQueue('p.queue', 'p_queue')}
      and (p.priority, p.due_at, p.seq) > (p_after[1]::int, p_after[2], p_after[3])
    order by p.priority, p.due_at, p.seq limit p_want for update skip locked
  )
  select array_agg(c.tid), array_agg(c.seq), array_agg(c.dear), min(c.expires_at), count(*)
  into v_tids, t.seqs, v_dear, v_expiry, v_n from c;
  t.slow := clock_timestamp() - v_began > interval '${slowMs} ms';
  if v_expiry <= p_now then return null; end if;
  t.more := false;
  if v_n = 0 then return t; end if;
  if p_slots < v_n and true = any(v_dear[p_slots + 1:]) then
    v_n := p_slots + array_position(v_dear[p_slots + 1:], true) - 1;
    t.more := true;
    if v_n = 0 then
      t.seqs := null;
      return t;
    end if;
    v_tids := v_tids[:v_n];
    t.seqs := t.seqs[:v_n];
  end if;
  select array[p.priority, p.due_at, p.seq] into t.last from ${s}.pending p where p.ctid = v_tids[v_n];
  delete from ${s}.pending p where p.ctid = any(v_tids);
  if v_n = p_want then
    t.more := exists (
      select 1 from ${s}.pending p where p.place = 0 and ${isType('p.type', 'p_type')} and ${isQueue('p.queue', 'p_queue')}
        and (p.priority, p.due_at, p.seq) > (t.last[1]::int, t.last[2], t.last[3]));
  end if;
  return t;
end $$;

-- A page: of each lane the first rows after a position, in order over all. Beyond the last row of a lane that may have more,
-- nothing is known of the order, so the page counts up to there: cut, null where no lane has more.
create type ${s}.standing as (
  tid tid, pos bigint[], seq bigint, queue text, expires_at bigint, dear boolean, limited boolean, cut bigint[]
);
create function ${s}.page_of(l ${s}.lanes, p_after bigint[], p_page int) returns setof ${s}.standing
language plpgsql ${ordered} as $$
begin
  return query
  with x as materialized (
    select p.tid, p.pos, p.seq, p.queue, p.expires_at, p.dear, n.room is not null as limited,
      p.nth = least(p_page, n.room) as ends
    from unnest(l.types, l.queues, l.rooms) n(type, queue, room)
    cross join lateral (
      select y.tid, y.pos, y.seq, y.queue, y.expires_at, y.dear, row_number() over () as nth from (
        select q.ctid as tid, array[q.priority, q.due_at, q.seq] as pos, q.seq, q.queue, q.expires_at, q.dear
        from ${s}.pending q where q.place = 0 and ${isType('q.type', 'n.type')} and ${isQueue('q.queue', 'n.queue')}
          and (q.priority, q.due_at, q.seq) > (p_after[1]::int, p_after[2], p_after[3])
        order by q.priority, q.due_at, q.seq limit least(p_page, n.room)
      ) y
    ) p
  ), c as materialized (select min(x.pos) as cut from x where x.ends)
  select x.tid, x.pos, x.seq, x.queue, x.expires_at, x.dear, x.limited, c.cut
  from c cross join x where c.cut is null or x.pos <= c.cut order by x.pos;
end $$;

-- Of several lanes. Once a queue has no room, what stands in it is left behind, and last stays.
create function ${s}.take_lanes(p_step bigint, p_now bigint, l ${s}.lanes, p_slots int, p_want int) returns ${s}.taken
language plpgsql ${ordered} as $$
declare
  v_page int := p_want / greatest(1, cardinality(l.types)) + 2;
  v_after bigint[] := l.after;
  v_cut bigint[];
  v_tids tid[];
  v_room bigint;
  v_left boolean := false;
  v_expired int := 0;
  v_began timestamptz := clock_timestamp();
  r ${s}.standing;
  j ${s}.jobs;
  t ${s}.taken;
begin
  t.seqs := '{}';
  t.more := false;
  v_tids := '{}';
  t.last := l.after;
  while cardinality(l.types) > 0 loop
    v_cut := null;
    for r in select * from ${s}.page_of(l, v_after, v_page) loop
      t.slow := coalesce(t.slow, clock_timestamp() - v_began > interval '${slowMs} ms');
      v_cut := r.cut;
      v_room := case when r.limited then l.rooms[array_position(l.queues, r.queue)] end;
      continue when v_room = 0;
      if r.expires_at <= p_now then
        select b.* into j from ${s}.jobs b where b.seq = r.seq;
        v_expired := v_expired + 1;
        if v_expired > ${expiredMax} then
          t.more := true;
          exit;
        end if;
        -- The step has looked at its turns: the next claim looks at this one.
        if ${s}.expire(p_step, p_now, j, true) and j.xkey is not null then t.more := true; end if;
      elsif cardinality(t.seqs) = p_want or (cardinality(t.seqs) >= p_slots and (r.dear or r.limited)) then
        t.more := true;
        exit;
      else
        perform 1 from ${s}.pending p where p.ctid = r.tid and p.place = 0 for update skip locked;
        if found then
          v_tids := v_tids || r.tid;
          t.seqs := t.seqs || r.seq;
          if r.limited then
            l.rooms := array(select case when q.queue = r.queue then q.room - 1 else q.room end
              from unnest(l.queues, l.rooms) with ordinality q(queue, room, o) order by q.o);
          end if;
        end if;
      end if;
      if not v_left then t.last := r.pos; end if;
      v_left := v_left or coalesce(v_room = 1, false);
    end loop;
    exit when t.more or v_cut is null;
    v_after := v_cut;
    v_page := least(v_page * 2, 1000);
    select array_agg(q.type order by q.o), array_agg(q.queue order by q.o), array_agg(q.room order by q.o)
    into l.types, l.queues, l.rooms
    from unnest(l.types, l.queues, l.rooms) with ordinality q(type, queue, room, o) where q.room is distinct from 0;
  end loop;
  delete from ${s}.pending p where p.ctid = any(v_tids);
  return t;
end $$;
`;
