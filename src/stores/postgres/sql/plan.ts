/**
 * What a cleanup would remove, page by page: first by age, then by count, then by the cap, each along the order in which the
 * sweep goes; then what is held, by the end of its hold; at last what is owned and due. A page looks at so many finished jobs; but a group with a count
 * rule is ranked as a whole, as it is by the sweep, because the order of its jobs is known to no index.
 */
import { now, ordered, settings } from './settings.js';

const phase = { ownAge: 0, age: 1, count: 2, cap: 3, held: 4, due: 5, over: 6 } as const;

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

-- The next jobs in the order of the phase: for the cap all finished ones, then those that are held or due, else those that go.
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
  elsif w.phase = ${phase.due} then
    return query select x.seq, x.at from ${s}.due_things(w.now, w.at, w.seq, p_limit) x;
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
create function ${s}.plan_on(w ${s}.planned, r ${s}.retention, p_staying bigint) returns ${s}.planned language plpgsql stable as $$
begin
  w.at := -1;
  w.seq := -1;
  if w.phase <> ${phase.count} then w.phase := w.phase + 1; end if;
  if w.phase = ${phase.count} then
    select g.type, g.state, g.fewest into w.type, w.state, w.fewest from ${s}.next_group(w.type, w.state) g;
    if w.type is not null then return w; end if;
    w.phase := ${phase.cap};
    w.excess := ${s}.stored() - w.found - r.most;
    if coalesce(w.excess + p_staying, 0) <= 0 then w.phase := ${phase.held}; end if;
  end if;
  -- A hold that is over holds nothing.
  if w.phase = ${phase.held} then w.at := w.now + 1; end if;
  return w;
end $$;

-- Of jobs in the order of the cap, so many that no earlier rule takes.
create function ${s}.plan_cap(
  w ${s}.planned, r ${s}.retention, p_rows ${s}.plan_row[], p_counted bigint[], p_most bigint
) returns ${s}.plan_row[] language plpgsql stable as $$
begin
  return array(select row(x.seq, x.at)::${s}.plan_row from unnest(p_rows) with ordinality x(seq, at, o)
      cross join lateral (select e as row, e.seq from ${s}.done e where e.seq = x.seq offset 0) d
    where not ${s}.is_over_age(d.row, w.now, r) and not d.seq = any(p_counted) order by x.o limit p_most);
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

-- A line for each rule and one for what is held; one for each job that goes and owns something (after its rule); what is
-- due; which rule takes the job that was asked for; and where to go on: JSON, no line at the end.
create function ${s}.read_plan_v1(
  p_now bigint, p_retention_ms bigint, p_by_completion boolean, p_most bigint, p_cursor text, p_limit int, p_staying bigint, p_id text
) returns table (part text, n bigint, bytes bigint, sample text) language plpgsql stable ${settings} as $$
declare
  r ${s}.retention := (p_retention_ms, p_by_completion, p_most);
  w ${s}.planned := json_populate_record(row(0, ${now}, 0, null, -1, -1, '', -1, null)::${s}.planned, coalesce(p_cursor, '{}')::json);
  v_room int := p_limit;
  v_last int := case when p_id is null then ${phase.due} else ${phase.cap} end;
  v_seq bigint;
  v_rows ${s}.plan_row[];
  v_took ${s}.plan_row[];
  v_page bigint[];
  v_age bigint[] := '{}';
  v_count bigint[] := '{}';
  v_cap bigint[] := '{}';
  v_held bigint[] := '{}';
  v_due bigint[] := '{}';
  v_counted bigint[];
  v_owing bigint[] := '{}';
begin
  -- Who asks for one job knows its age: what goes by age counts only for the cap.
  if p_id is not null and p_most is null and p_cursor is null then
    w.phase := ${phase.age};
    w := ${s}.plan_on(w, r, p_staying);
  end if;
  while v_room > 0 and w.phase <= v_last and v_owing = '{}' loop
    v_rows := array(select x from ${s}.plan_rows(w, r, v_room) x);
    v_took := v_rows;
    if w.phase = ${phase.cap} then
      v_counted := coalesce(v_counted, ${s}.over_count(w.now, r, null));
      v_took := ${s}.plan_cap(w, r, v_rows, v_counted, w.excess + p_staying);
      w.excess := w.excess - cardinality(v_took);
      -- What comes after the last of them is not passed: more may be needed.
      if w.excess + p_staying <= 0 then v_rows := v_took; end if;
    end if;
    v_page := array(select x.seq from unnest(v_took) x);
    if w.phase = ${phase.due} then v_due := v_due || v_page;
    elsif w.phase = ${phase.held} then v_held := v_held || v_page;
    elsif w.phase = ${phase.cap} then v_cap := v_cap || v_page;
    elsif w.phase = ${phase.count} then v_count := v_count || v_page;
    else v_age := v_age || v_page; end if;
    if w.phase < ${phase.cap} then w.found := w.found + cardinality(v_page); end if;
    if w.phase <= ${phase.cap} then v_owing := ${s}.owing_of(v_page); end if;
    if cardinality(v_rows) > 0 then
      w.at := v_rows[cardinality(v_rows)].at;
      w.seq := v_rows[cardinality(v_rows)].seq;
    end if;
    if v_owing = '{}' and (cardinality(v_rows) < v_room or (w.phase = ${phase.cap} and w.excess + p_staying <= 0)) then
      w := ${s}.plan_on(w, r, p_staying);
    end if;
    v_room := v_room - cardinality(v_rows);
  end loop;
  return query select * from ${s}.plan_part('age', v_age);
  return query select * from ${s}.plan_part('count', v_count);
  return query select * from ${s}.plan_part('cap', v_cap);
  return query select * from ${s}.plan_part('held', v_held);
  return query select 'owing', 1::bigint, p.bytes, concat(case when x.seq = any(v_age) then 'age' when x.seq = any(v_count) then 'count'
      else 'cap' end, ' ', p.sample)
    from unnest(v_owing) with ordinality x(seq, o) cross join lateral ${s}.plan_part('owing', array[x.seq]) p order by x.o;
  return query select 'due', null::bigint, null::bigint, (select string_agg(b.id, ',' order by x.o)
    from unnest(v_due) with ordinality x(seq, o)
    cross join lateral (select k.id from ${s}.jobs k where k.seq = x.seq offset 0) b);
  v_seq := (select b.seq from ${s}.jobs b where b.id = p_id);
  return query select 'taken', null::bigint, null::bigint, case when v_seq = any(v_age) then 'age'
    when v_seq = any(v_count) then 'count' when v_seq = any(v_cap) then 'cap' end;
  return query select 'next', null::bigint, null::bigint, row_to_json(w)::text where w.phase <= v_last;
end $$;
`;
