/**
 * Holds: a held job is not removed. Of a finished job the row in \`done\` says so too, so that it stands in none of the orders
 * of retention; a live one takes the word along when it ends. A hold that is over no longer counts, lifted or not.
 */

export const hold = (s: string): string => `
-- False: the job is gone.
create function ${s}.set_hold(p_seq bigint, p_until bigint, p_reason text) returns boolean language plpgsql as $$
declare
  j ${s}.jobs;
begin
  loop
    select b.* into j from ${s}.jobs b where b.seq = p_seq;
    if not found then return false; end if;
    -- Wherever it is, it stays there until it is marked.
    perform 1 from ${s}.done d where d.seq = p_seq for update;
    exit when found;
    perform 1 from ${s}.pending p where p.type = j.type and p.seq = p_seq for update;
    exit when found;
    exit when ${s}.hold(p_seq, j.epoch) is not null;
  end loop;
  update ${s}.jobs b set held_until = p_until, held_reason = p_reason, flags = b.flags | 4 where b.seq = p_seq;
  update ${s}.done d set held_until = p_until where d.seq = p_seq;
  return true;
end $$;

-- Null: the job is gone.
create function ${s}.unhold(p_seq bigint, p_dry boolean) returns text language plpgsql as $$
declare
  v_until bigint;
begin
  select b.held_until into v_until from ${s}.jobs b where b.seq = p_seq;
  if not found then return null; end if;
  if v_until is null then return 'not_held'; end if;
  if p_dry or ${s}.set_hold(p_seq, null, null) then return 'released'; end if;
  return null;
end $$;

-- Holds that are over: what is finished returns to the orders of retention. How many.
create function ${s}.lift_holds(p_now bigint, p_limit int) returns int language plpgsql as $$
declare
  v_done bigint[];
  v_live bigint[];
begin
  if not exists (select 1 from ${s}.jobs b where b.held_until <= p_now)
    and not exists (select 1 from ${s}.done d where d.held_until <= p_now) then return 0; end if;
  v_done := array(select d.seq from ${s}.done d where d.held_until <= p_now order by d.held_until, d.seq
    limit p_limit for update skip locked);
  v_live := array(select b.seq from ${s}.jobs b
    where b.held_until <= p_now and not exists (select 1 from ${s}.done d where d.seq = b.seq offset 0)
    order by b.held_until, b.seq limit p_limit for update skip locked);
  update ${s}.jobs b set held_until = null, held_reason = null where b.seq = any(v_done || v_live);
  update ${s}.done d set held_until = null where d.seq = any(v_done);
  return greatest(cardinality(v_done), cardinality(v_live));
end $$;
`;
