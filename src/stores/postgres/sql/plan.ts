/**
 * What a cleanup would remove, page by page: first by age, then by count, then by the cap, each along the order in which the
 * sweep goes; at last what is held, by the end of its hold. A page looks at so many finished jobs; but a group with a count
 * rule is ranked as a whole, as it is by the sweep, because the order of its jobs is known to no index.
 */
import { now, ordered, settings } from './settings.js';

const phase = { ownAge: 0, age: 1, count: 2, cap: 3, held: 4, over: 5 } as const;

export const plan = (s: string): string => `
-- Where a plan stands. at, seq: the last job that was looked at, in the order of the phase. type, state: the group with a count
-- rule that is being looked at. found: by age and count so far; excess: how many are still above the cap.
create type ${s}.planned as (
  phase int, now bigint, found bigint, excess bigint, at bigint, seq bigint, type text, state int, fewest int
);
create type ${s}.plan_row as (seq bigint, at bigint);

-- Length in UTF-16 units, as JavaScript has it.
create function ${s}.units(p_text text) returns bigint language sql immutable as $$
  select case when p_text is null then 0 when octet_length(p_text) = length(p_text) then length(p_text)
    else length(p_text) + length(regexp_replace(p_text, '[^\\U00010000-\\U0010FFFF]', '', 'g')) end
$$;

-- The next finished jobs in the order of the phase: for the cap all of them, at last those that are held, else those that go.
create function ${s}.plan_rows(w ${s}.planned, r ${s}.retention, p_limit int) returns setof ${s}.plan_row
language plpgsql stable ${ordered} as $$
begin
  if w.phase = ${phase.ownAge} then
    return query select d.seq, d.go_at from ${s}.done d
      where d.go_at < w.now and d.held_until is null and (d.go_at, d.seq) > (w.at, w.seq)
      order by d.go_at, d.seq limit p_limit;
  elsif w.phase = ${phase.age} and r.by_completion then
    return query select d.seq, d.completed_at from ${s}.done d
      where d.keep_ms is null and d.held_until is null and d.completed_at < w.now - r.ms
        and (d.completed_at, d.seq) > (w.at, w.seq)
      order by d.completed_at, d.seq limit p_limit;
  elsif w.phase = ${phase.age} then
    return query select d.seq, d.created_at from ${s}.done d
      where d.keep_ms is null and d.held_until is null and d.created_at < w.now - r.ms
        and (d.created_at, d.seq) > (w.at, w.seq)
      order by d.created_at, d.seq limit p_limit;
  elsif w.phase = ${phase.count} then
    return query select d.seq, d.completed_at
      from unnest(${s}.over_count_of(w.now, r, w.type, w.state, w.fewest, null)) x(seq)
        cross join lateral (select e.seq, e.completed_at from ${s}.done e where e.seq = x.seq offset 0) d
      where (d.completed_at, d.seq) > (w.at, w.seq) order by d.completed_at, d.seq limit p_limit;
  elsif w.phase = ${phase.held} then
    return query select d.seq, d.held_until from ${s}.done d
      where d.held_until is not null and (d.held_until, d.seq) > (w.at, w.seq)
      order by d.held_until, d.seq limit p_limit;
  else
    return query select x.seq, x.completed_at from (
      select * from (select d.completed_at, d.seq from ${s}.done d
        where d.keep_ms is null and d.held_until is null and (d.completed_at, d.seq) > (w.at, w.seq)
        order by d.completed_at, d.seq limit p_limit) a
      union all
      select * from (select d.completed_at, d.seq from ${s}.done d
        where d.keep_ms is not null and d.held_until is null and (d.completed_at, d.seq) > (w.at, w.seq)
        order by d.completed_at, d.seq limit p_limit) b
    ) x order by x.completed_at, x.seq limit p_limit;
  end if;
end $$;

-- To the beginning of the next phase, or of the next group.
create function ${s}.plan_on(w ${s}.planned, r ${s}.retention) returns ${s}.planned language plpgsql stable as $$
begin
  w.at := -1;
  w.seq := -1;
  if w.phase <> ${phase.count} then w.phase := w.phase + 1; end if;
  if w.phase = ${phase.count} then
    select g.type, g.state, g.fewest into w.type, w.state, w.fewest from ${s}.next_group(w.type, w.state) g;
    if w.type is not null then return w; end if;
    w.phase := ${phase.cap};
    w.excess := ${s}.stored() - w.found - r.most;
    if coalesce(w.excess, 0) <= 0 then w.phase := ${phase.held}; end if;
  end if;
  -- A hold that is over holds nothing.
  if w.phase = ${phase.held} then w.at := w.now + 1; end if;
  return w;
end $$;

-- Of jobs in the order of the cap, those that no earlier rule takes.
create function ${s}.plan_cap(w ${s}.planned, r ${s}.retention, p_rows ${s}.plan_row[], p_counted bigint[]) returns bigint[]
language plpgsql stable as $$
begin
  return array(select d.seq from unnest(p_rows) with ordinality x(seq, at, o)
      cross join lateral (select e as row, e.seq from ${s}.done e where e.seq = x.seq offset 0) d
    where not ${s}.is_over_age(d.row, w.now, r) and not d.seq = any(p_counted) order by x.o limit w.excess);
end $$;

create function ${s}.plan_part(p_part text, p_seqs bigint[], out part text, out n bigint, out bytes bigint, out sample text)
language plpgsql stable as $$
begin
  part := p_part;
  select count(*), coalesce(sum(${s}.units(b.input) + ${s}.units(d.result) + ${s}.units(d.error)), 0),
    array_to_string((array_agg(b.id order by coalesce(d.held_until, d.completed_at), d.seq))[:10], ',')
  into n, bytes, sample
  from unnest(p_seqs) x(seq)
  cross join lateral (select k.id, k.input from ${s}.jobs k where k.seq = x.seq offset 0) b
  cross join lateral (select k.seq, k.completed_at, k.held_until, k.result, k.error from ${s}.done k
    where k.seq = x.seq offset 0) d;
end $$;

-- A line for each rule, one for what is held, and one that says where to go on: JSON, null at the end.
create function ${s}.read_plan_v1(
  p_now bigint, p_retention_ms bigint, p_by_completion boolean, p_most bigint, p_cursor text, p_limit int
) returns table (part text, n bigint, bytes bigint, sample text) language plpgsql stable ${settings} as $$
declare
  r ${s}.retention := (p_retention_ms, p_by_completion, p_most);
  w ${s}.planned := json_populate_record(row(0, ${now}, 0, null, -1, -1, '', -1, null)::${s}.planned, coalesce(p_cursor, '{}')::json);
  v_room int := p_limit;
  v_rows ${s}.plan_row[];
  v_age bigint[] := '{}';
  v_count bigint[] := '{}';
  v_cap bigint[] := '{}';
  v_held bigint[] := '{}';
  v_counted bigint[];
  v_page bigint[];
begin
  while v_room > 0 and w.phase < ${phase.over} loop
    v_rows := array(select x from ${s}.plan_rows(w, r, v_room) x);
    if w.phase = ${phase.cap} then
      v_counted := coalesce(v_counted, ${s}.over_count(w.now, r, null));
      v_page := ${s}.plan_cap(w, r, v_rows, v_counted);
      v_cap := v_cap || v_page;
      w.excess := w.excess - cardinality(v_page);
    else
      v_page := array(select x.seq from unnest(v_rows) x);
      if w.phase = ${phase.held} then v_held := v_held || v_page;
      elsif w.phase = ${phase.count} then v_count := v_count || v_page;
      else v_age := v_age || v_page; end if;
      if w.phase <> ${phase.held} then w.found := w.found + cardinality(v_page); end if;
    end if;
    if cardinality(v_rows) < v_room or (w.phase = ${phase.cap} and w.excess <= 0) then w := ${s}.plan_on(w, r);
    else
      w.at := v_rows[cardinality(v_rows)].at;
      w.seq := v_rows[cardinality(v_rows)].seq;
    end if;
    v_room := v_room - cardinality(v_rows);
  end loop;
  return query select * from ${s}.plan_part('age', v_age);
  return query select * from ${s}.plan_part('count', v_count);
  return query select * from ${s}.plan_part('cap', v_cap);
  return query select * from ${s}.plan_part('held', v_held);
  return query select 'next', null::bigint, null::bigint, row_to_json(w)::text where w.phase < ${phase.over};
end $$;
`;
