/**
 * Where a pending job stands: ready (0), later (1) or behind (2), and how the turn of an exclusive key passes on.
 * Invariant: a key with a due job has one row in `turns`, and its job is ready or claimed. Who puts a job behind a turn
 * locks the turn before its commit, so that it is passed on only by somebody who sees that job. Turns are the last that a step
 * waits for, see docs/decisions/019: what comes to stand behind, and what leaves, notes its key in `events`, and the step looks
 * at all these keys once, in order. Inside a transaction of the caller no turn is locked: the key is noted in `loose`, and
 * tending looks at it. So is a key whose turn is given away after the step has looked.
 *
 * A row of `pending` is never updated: who looks for free rows (`skip locked`) would at times wait for the newer version of one
 * that others have changed twice. It is deleted, and comes to stand elsewhere; who waited for it looks again.
 */
const copied = ['seq', 'due_at', 'expires_at', 'priority', 'dear', 'type', 'queue', 'slot', 'xkey'];
const columns = ['place', ...copied].join(', ');
const from = (row: string, place: string): string => [place, ...copied.map((column) => `${row}.${column}`)].join(', ');

export const place = (s: string): string => `
-- False: another job has its slot.
create function ${s}.put(j ${s}.jobs, p_place int) returns boolean language plpgsql as $$
begin
  insert into ${s}.pending (seq, due_at, expires_at, priority, place, dear, type, queue, slot, xkey)
  values (j.seq, j.due_at, j.expires_at, j.priority, p_place,
    j.long is true or j.wary is true or j.stalls > 0 or j.xkey is not null, j.type, j.queue, j.slot, j.xkey)
  on conflict (type, slot) where slot is not null do nothing;
  return found;
end $$;

-- A job that is nowhere (new, or just taken) comes to stand where its due_at and its key say. Null: its slot is taken.
create function ${s}.stand(p_step bigint, j ${s}.jobs, p_now bigint, p_inside boolean) returns int language plpgsql as $$
declare
  v_place int := case when j.due_at > p_now then 1 when j.xkey is null then 0 else 2 end;
begin
  if not ${s}.put(j, v_place) then return null; end if;
  if v_place = 2 then perform ${s}.note_key(p_step, j, p_now, j.seq, p_inside); end if;
  return v_place;
end $$;

-- The turn of this key is to be looked at. p_stood: the job, if it came to stand behind; null: it gave the turn away.
create function ${s}.note_key(p_step bigint, j ${s}.jobs, p_now bigint, p_stood bigint, p_inside boolean) returns void
language plpgsql as $$
begin
  if p_inside then
    insert into ${s}.loose (type, queue, xkey) values (j.type, j.queue, j.xkey);
  else
    insert into ${s}.events (step, at, type, queue, xkey, stood) values (p_step, p_now, j.type, j.queue, j.xkey, p_stood);
  end if;
end $$;

-- A pending job leaves its place for good or for another one; a turn it had passes on. Null: it is pending no more.
create function ${s}.leave_place(p_step bigint, j ${s}.jobs, p_now bigint, p_inside boolean) returns int
language plpgsql as $$
declare
  v_place int;
begin
  delete from ${s}.pending p where p.type = j.type and p.seq = j.seq returning p.place into v_place;
  if v_place = 0 and j.xkey is not null then perform ${s}.note_key(p_step, j, p_now, null, p_inside); end if;
  return v_place;
end $$;

-- The turn of a job goes to the first behind in the same step, so nobody waits for a turn that no one has. Who is being
-- changed by another step is passed over; if nobody else is behind, the key is looked at again.
create function ${s}.pass_turn(p_step bigint, p_now bigint, p_type text, p_queue text, p_xkey text, p_from bigint)
returns void language plpgsql as $$
declare
  v_seq bigint;
begin
  select t.seq into v_seq from ${s}.turns t where t.type = p_type and t.queue = p_queue and t.xkey = p_xkey for update;
  if v_seq is distinct from p_from then return; end if;
  select p.seq into v_seq from ${s}.pending p
  where p.place = 2 and p.type = p_type and p.queue = p_queue and p.xkey = p_xkey
  order by p.priority, p.due_at, p.seq limit 1 for update skip locked;
  if not found then
    delete from ${s}.turns t where t.type = p_type and t.queue = p_queue and t.xkey = p_xkey;
    insert into ${s}.loose (type, queue, xkey) select p_type, p_queue, p_xkey where exists (
      select 1 from ${s}.pending p where p.place = 2 and p.type = p_type and p.queue = p_queue and p.xkey = p_xkey);
    return;
  end if;
  perform ${s}.give_turn(p_step, p_now, p_type, p_queue, p_xkey, v_seq);
end $$;

-- A turn that nobody who is ready or claimed has is passed on. One that there is not yet goes to who was due first; one that
-- was given away in this step goes to who was behind before, or else to the first of those who came to stand behind since.
create function ${s}.mend_turn(
  p_step bigint, p_now bigint, p_type text, p_queue text, p_xkey text, p_stood bigint[] default null
) returns void language plpgsql as $$
declare
  v_seq bigint;
  v_next bigint;
begin
  loop
    select t.seq into v_seq from ${s}.turns t where t.type = p_type and t.queue = p_queue and t.xkey = p_xkey for update;
    exit when found;
    select p.seq into v_next from ${s}.pending p
    where p.place = 2 and p.type = p_type and p.queue = p_queue and p.xkey = p_xkey order by p.due_at, p.seq limit 1;
    if not found then return; end if;
    insert into ${s}.turns (type, queue, xkey, seq) values (p_type, p_queue, p_xkey, v_next) on conflict do nothing;
  end loop;
  if exists (
    select 1 from ${s}.jobs b left join ${s}.pending p on p.type = b.type and p.seq = b.seq
    where b.seq = v_seq and coalesce(p.place, 0) = 0 and not exists (select 1 from ${s}.done d where d.seq = b.seq offset 0)
  ) then return; end if;
  if v_next is distinct from v_seq then v_next := null; end if;
  if v_next is not null or p_stood is not null then
    select p.seq into v_next from ${s}.pending p
    where p.place = 2 and p.type = p_type and p.queue = p_queue and p.xkey = p_xkey
      and (v_next is null or p.seq = v_next)
    order by array_position(p_stood, p.seq) nulls first, p.priority, p.due_at, p.seq limit 1 for update skip locked;
    if found then
      perform ${s}.give_turn(p_step, p_now, p_type, p_queue, p_xkey, v_next);
      return;
    end if;
  end if;
  perform ${s}.pass_turn(p_step, p_now, p_type, p_queue, p_xkey, v_seq);
end $$;

create function ${s}.give_turn(p_step bigint, p_now bigint, p_type text, p_queue text, p_xkey text, p_seq bigint)
returns void language plpgsql as $$
begin
  update ${s}.turns t set seq = p_seq where t.type = p_type and t.queue = p_queue and t.xkey = p_xkey;
  with gone as (delete from ${s}.pending p where p.type = p_type and p.seq = p_seq returning p.*)
  insert into ${s}.pending (${columns}) select ${from('g', '0')} from gone g;
  insert into ${s}.events (step, at, type, ready) values (p_step, p_now, p_type, true);
end $$;

-- The keys that were noted in this step, once, in order: behind it, a step waits for limits only.
create function ${s}.mend_noted(p_step bigint, p_now bigint) returns void language plpgsql as $$
declare
  r record;
begin
  for r in
    select e.type, e.queue, e.xkey, case when bool_or(e.stood is null)
        then coalesce(array_agg(e.stood order by e.no) filter (where e.stood is not null), '{}') end as stood
    from ${s}.events e where e.no > p_step and e.step = p_step and e.xkey is not null
    group by e.type, e.queue, e.xkey order by e.type, e.queue, e.xkey
  loop
    perform ${s}.mend_turn(p_step, p_now, r.type, r.queue, r.xkey, r.stood);
  end loop;
end $$;

-- What became due moves from later to ready, or behind its key; each job is promoted once.
create function ${s}.promote(p_step bigint, p_now bigint, p_floor bigint, p_limit int) returns int language plpgsql as $$
declare
  v_n int;
begin
  with due as materialized (
    delete from ${s}.pending p where p.ctid = any(array(
      select q.ctid from ${s}.pending q where q.place = 1 and q.due_at > p_floor and q.due_at <= p_now
      order by q.due_at, q.seq limit p_limit for update skip locked)) returning p.*
  ), moved as (
    insert into ${s}.pending (${columns}) select ${from('due', 'case when due.xkey is null then 0 else 2 end')} from due
  ), told as (
    insert into ${s}.events (step, at, type, queue, delayed, ready)
    select p_step, p_now, due.type, due.queue, -count(*), true from due where due.xkey is null group by due.type, due.queue
  ), noted as (
    insert into ${s}.events (step, at, type, queue, delayed, xkey, stood)
    select p_step, p_now, due.type, due.queue, -1, due.xkey, due.seq from due where due.xkey is not null order by due.due_at, due.seq
  )
  select count(*) into v_n from due;
  return v_n;
end $$;
`;
