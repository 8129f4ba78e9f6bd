/** Sweep: tending, and the removal of finished jobs by age, by count and by the cap. Each part is bounded. */
import { systemQueue } from '../../../core/names.js';
import { now, readCommitted, settings } from './settings.js';

/** Cards of workers that were not heard of again. */
const cardsMax = 500;
const liftedMax = 500;

export const sweep = (s: string): string => `
create type ${s}.cleaned as (by_age int, by_count int, by_cap int, owing bigint[], more boolean);

-- p_retention_ms null: tending only. p_holder null: no term is asked for. p_entry: the term ends, and nothing else is done.
create function ${s}.sweep_v1(
  p_now bigint, p_sender text, p_cap bigint, p_limit int, p_retention_ms bigint, p_by_completion boolean, p_most bigint,
  p_holder text, p_ttl_ms bigint, p_entry text
) returns table (lapsed int, expired int, fenced int, by_age int, by_count int, by_cap int, more boolean, hints text, owing text,
  due_things text, term bigint, busy boolean)
language plpgsql ${settings} as $$
declare
  v_now bigint := ${now};
  t ${s}.tended;
  c ${s}.cleaned;
  f ${s}.collected;
  v_quiet boolean;
  v_past bigint;
begin
  ${readCommitted()}
  if p_retention_ms is not null and not p_by_completion then perform ${s}.index_creation(); end if;
  hints := '';
  busy := false;
  c := (0, 0, 0, '{}', false);
  t := (null, 0, 0, false);
  f := (0, false);
  if p_holder is not null and p_entry is not null then
    term := ${s}.end_term(p_holder, p_entry);
  else
    t := ${s}.tend(null, v_now, 0, ${s}.look_around(v_now, 0));
    t.more := ${s}.lift_holds(v_now, ${liftedMax}) = ${liftedMax} or t.more;
    if exists (select 1 from ${s}.fences k where k.due_at <= v_now) then
      t.step := coalesce(t.step, ${s}.begin_step(false));
      f := ${s}.collect_fenced(t.step, v_now, p_limit);
    end if;
    if p_holder is not null and p_retention_ms is not null then
      term := ${s}.take_term(v_now, p_holder, p_ttl_ms);
      busy := term is null;
      v_past := (select k.past from ${s}.terms k);
    end if;
  end if;
  v_quiet := t.step is null;
  if p_retention_ms is not null and (p_entry is null or p_holder is null) and not busy then
    t.step := coalesce(t.step, ${s}.begin_step(false));
    c := ${s}.clean_up(t.step, v_now, p_limit, row(p_retention_ms, p_by_completion, p_most)::${s}.retention, v_past);
    select string_agg(b.id, ',' order by x.o) into owing from unnest(c.owing) with ordinality x(seq, o)
      cross join lateral (select k.id from ${s}.jobs k where k.seq = x.seq offset 0) b;
    select string_agg(x.id, ','), count(*) = p_limit or c.more into due_things, c.more from ${s}.due_things(v_now, -1, -1, p_limit) x;
  end if;
  lapsed := t.lapsed;
  expired := t.expired;
  fenced := f.fenced;
  by_age := c.by_age;
  by_count := c.by_count;
  by_cap := c.by_cap;
  more := t.more or c.more or f.more;
  if v_quiet then
    -- What is gone frees nothing: only who follows the events would hear of it, and looks for himself. To notify would make
    -- each enqueue wait until this step, which writes much, is on the disk.
    hints := case when by_age + by_count + by_cap > 0 then 'e' else '' end;
  else
    perform ${s}.mend_noted(t.step, v_now);
    hints := ${s}.finish_step(t.step, v_now, p_sender, case when lapsed + expired + fenced > 0 then p_cap end, false, null);
  end if;
  if p_retention_ms is not null and p_entry is null and not more then perform ${s}.trim_tombs(true); end if;
  if p_entry is null and (not more or t.step % 32 = 0) then perform ${s}.fold(v_now); end if;
  return next;
end $$;

-- A part acts only when those before it have nothing left to remove, so that in the end the same jobs go, whatever the limit.
-- p_past: as in over_age, for the next part; null: there is no term to keep it.
create function ${s}.clean_up(p_step bigint, p_now bigint, p_limit int, r ${s}.retention, p_past bigint) returns ${s}.cleaned
language plpgsql as $$
declare
  v_seqs bigint[];
  v_owing bigint[];
  g ${s}.gone;
  c ${s}.cleaned;
begin
  c := (0, 0, 0, '{}', false);
  v_seqs := ${s}.over_age(p_now, r, p_limit, coalesce(p_past, 0));
  if cardinality(v_seqs) = p_limit and p_past is not null then
    update ${s}.terms x set past = d.completed_at from ${s}.done d where d.seq = v_seqs[p_limit];
  end if;
  g := ${s}.remove_done(p_step, p_now, v_seqs, 'age');
  c.by_age := g.n;
  if cardinality(v_seqs) < p_limit and g.owing = '{}' then
    v_seqs := ${s}.lock_done(${s}.over_count(p_now, r, p_limit));
    -- What is newer counts for the rank of an older one: it does not go before one that still owns something.
    v_owing := ${s}.owing_of(v_seqs);
    g := ${s}.remove_done(p_step, p_now,
      case when v_owing = '{}' then v_seqs else v_seqs[:array_position(v_seqs, v_owing[1]) - 1] end, 'count');
    g.owing := v_owing || g.owing;
    c.by_count := g.n;
  end if;
  if cardinality(v_seqs) < p_limit and g.owing = '{}' and r.most is not null then
    -- Only finished jobs go, so live ones may keep the number above the cap.
    v_seqs := ${s}.oldest_done(least(${s}.stored() - r.most, p_limit));
    g := ${s}.remove_done(p_step, p_now, v_seqs, 'cap');
    c.by_cap := g.n;
  end if;
  c.owing := g.owing;
  c.more := cardinality(v_seqs) = p_limit;
  if c.by_age + c.by_count + c.by_cap > 0 then
    insert into ${s}.events (step, at, name) values (p_step, p_now, 'swept');
  end if;
  perform ${s}.drop_policies(p_limit);
  delete from ${s}.workers w where w.owner = any(array(
    select x.owner from ${s}.workers x where x.due_at <= p_now limit ${cardsMax} for update skip locked));
  return c;
end $$;

-- Those that nobody else has, in the same order.
create function ${s}.lock_done(p_seqs bigint[]) returns bigint[] language plpgsql as $$
declare
  v_locked bigint[];
begin
  if cardinality(p_seqs) = 0 then return p_seqs; end if;
  v_locked := array(select d.seq from ${s}.done d where d.seq = any(p_seqs) and d.held_until is null
    order by d.seq for update skip locked);
  return array(select x.seq from unnest(p_seqs) with ordinality x(seq, o) where x.seq = any(v_locked) order by x.o);
end $$;

-- Owned jobs of the library's own queue that are due, after a position: what they stand for is to be removed, and then they are.
create function ${s}.due_things(p_now bigint, p_at bigint, p_seq bigint, p_limit int)
returns table (id text, at bigint, seq bigint) language plpgsql stable as $$
begin
  return query select b.id, b.due_at, b.seq from ${s}.jobs b
    where exists (select 1 from ${s}.pending p where p.type = b.type and p.seq = b.seq offset 0)
      and b.owned_by is not null and b.over is null and b.due_at <= p_now and (b.due_at, b.seq) > (p_at, p_seq) and b.queue = '${systemQueue}'
      and (b.held_until is null or b.held_until <= p_now)
    order by b.due_at, b.seq limit p_limit;
end $$;
`;
