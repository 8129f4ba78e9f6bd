/**
 * The live jobs that a new one meets by its type and key. Newest first, and no finished one is looked at. Where two indices
 * would give the order, the one to read is said by what is sorted by (`between` is no constant to the planner), and nothing
 * is sorted that an index has in order.
 */
import { ordered } from './settings.js';

export const matches = (s: string): string => `
-- place is null where a claim holds the job.
create type ${s}.match as (seq bigint, place int, expires_at bigint);

create function ${s}.pending_matches(p_type text, p_key text, p_below bigint) returns ${s}.match
language plpgsql stable ${ordered} as $$
declare
  m ${s}.match;
begin
  if p_key is null then
    select p.seq, p.place, p.expires_at into m from ${s}.pending p
    where p.type = p_type and p.seq < p_below order by p.type desc, p.seq desc limit 1;
  else
    select p.seq, p.place, p.expires_at into m
    from ${s}.jobs b cross join lateral (
      select q.seq, q.place, q.expires_at from ${s}.pending q where q.type = b.type and q.seq = b.seq offset 0
    ) p
    where b.type = p_type and b.key between p_key and p_key and b.over is null and b.seq < p_below
    order by b.key desc, b.seq desc limit 1;
  end if;
  return m;
end $$;

-- Whether more than so many wait.
create function ${s}.has_more_matches(p_type text, p_key text, p_most int) returns boolean
language plpgsql stable ${ordered} as $$
begin
  if p_key is null then
    return exists (select 1 from ${s}.pending p where p.type = p_type order by p.type desc, p.seq desc offset p_most limit 1);
  end if;
  return exists (
    select 1 from ${s}.jobs b cross join lateral (
      select 1 from ${s}.pending q where q.type = b.type and q.seq = b.seq offset 0
    ) p
    where b.type = p_type and b.key between p_key and p_key and b.over is null
    order by b.key desc, b.seq desc offset p_most limit 1);
end $$;

-- The newest one that runs, is marked to run again, and is not asked to stop: for skip it is as good as pending. Few are marked,
-- and all of them are looked at.
create function ${s}.again_match(p_type text, p_key text) returns bigint language plpgsql stable as $$
begin
  return (
    select max(x.seq) from (
      select b.seq, b.type, b.key, b.cancel_at from ${s}.jobs b where b.again_at is not null order by b.again_at offset 0
    ) x where x.type = p_type and x.cancel_at is null and (p_key is null or x.key = p_key));
end $$;

-- The newest one that runs and is not asked to stop.
create function ${s}.running_match(p_type text, p_key text) returns bigint language plpgsql stable ${ordered} as $$
begin
  if p_key is not null then
    return (
      select b.seq from ${s}.jobs b
      where b.type = p_type and b.key between p_key and p_key and b.over is null and b.cancel_at is null
        and not exists (select 1 from ${s}.pending p where p.type = b.type and p.seq = b.seq offset 0)
        and not exists (select 1 from ${s}.done d where d.seq = b.seq offset 0)
      order by b.key desc, b.seq desc limit 1);
  end if;
  return (
    select max(b.seq) from ${s}.claims c cross join lateral unnest(c.seqs) h(seq)
    cross join lateral (select j.seq, j.type, j.cancel_at from ${s}.jobs j where j.seq = h.seq offset 0) b
    where p_type = any(c.types) and b.type = p_type and b.cancel_at is null
      and not exists (select 1 from ${s}.pending p where p.type = b.type and p.seq = b.seq offset 0)
      and not exists (select 1 from ${s}.done d where d.seq = b.seq offset 0));
end $$;

-- A claim that somebody else has at this moment is not waited for by who may have locked something before: the step is undone
-- (LO004), waits for that claim without holding anything, and begins anew.
create function ${s}.step_back(p_epoch bigint) returns void language plpgsql as $$
begin
  raise exception '%', p_epoch using errcode = 'LO004';
end $$;

create function ${s}.await_claim(p_epoch bigint) returns void language plpgsql as $$
begin
  perform 1 from ${s}.claims c where c.epoch = p_epoch for update;
  perform ${s}.step_back(p_epoch);
exception when sqlstate 'LO004' then null;
end $$;

-- The claim that holds a job, which is about to be marked: locked against its end, so that its worker may extend it, but not
-- settle it before it can see the mark. Null: nobody holds it any more.
create function ${s}.hold(p_seq bigint, p_epoch bigint) returns bigint language plpgsql as $$
declare
  v_epoch bigint;
  v_locked bigint;
begin
  select c.epoch into v_epoch from ${s}.claims c where p_seq = any(c.seqs) and c.epoch > p_epoch order by c.epoch desc limit 1;
  if not found then return null; end if;
  select c.epoch into v_locked from ${s}.claims c where c.epoch = v_epoch for key share skip locked;
  if not found then perform ${s}.step_back(v_epoch); end if;
  perform 1 from ${s}.jobs b where b.seq = p_seq and b.epoch < v_epoch
    and not exists (select 1 from ${s}.done d where d.seq = b.seq offset 0);
  if not found then return null; end if;
  insert into ${s}.marked (epoch) values (v_epoch);
  return v_epoch;
end $$;
`;
