/**
 * Holds: a held job is not removed. Of a finished job the row in \`done\` says so too, so that it stands in none of the orders
 * of retention; a live one takes the word along when it ends. A hold that is over no longer counts, lifted or not; one without
 * a reason does no more than to set a job aside.
 */
import { systemQueue } from '../../../core/names.js';

export const hold = (s: string): string => `
-- Wherever a job is, it stays there, and as it is, until this transaction has ended. Null: it is gone.
create function ${s}.fix(p_seq bigint) returns ${s}.jobs language plpgsql as $$
declare
  j ${s}.jobs;
begin
  loop
    select b.* into j from ${s}.jobs b where b.seq = p_seq;
    if not found then return null; end if;
    perform 1 from ${s}.done d where d.seq = p_seq for update;
    exit when found;
    perform 1 from ${s}.pending p where p.type = j.type and p.seq = p_seq for update;
    exit when found;
    exit when ${s}.hold(p_seq, j.epoch) is not null;
  end loop;
  select b.* into j from ${s}.jobs b where b.seq = p_seq for update;
  return j;
end $$;

create function ${s}.set_hold(p_seq bigint, p_until bigint, p_reason text) returns void language plpgsql as $$
begin
  update ${s}.jobs b set held_until = p_until, held_reason = p_reason, flags = b.flags | 4 where b.seq = p_seq;
  update ${s}.done d set held_until = p_until where d.seq = p_seq;
end $$;

-- Hold, unhold and defer; null: the job is gone.
create function ${s}.change_hold(p_now bigint, p_seq bigint, m ${s}.move, p_dry boolean) returns text language plpgsql as $$
declare
  v_outcome text;
  j ${s}.jobs;
begin
  if p_dry then select b.* into j from ${s}.jobs b where b.seq = p_seq; else j := ${s}.fix(p_seq); end if;
  if j.seq is null then return null; end if;
  v_outcome := case
    when m.kind = 'hold' then case when ${s}.is_losing(j) then 'going' else 'held' end
    when m.kind = 'unhold' then case when j.held_reason is null then 'not_held' else 'released' end
    when ${s}.is_held(j, p_now) then 'held'
    when m.in_ms is not null then 'moved'
    when j.held_until is null then 'not_held'
    else 'released' end;
  if p_dry then return v_outcome; end if;
  if m.kind = 'hold' and v_outcome = 'held' then perform ${s}.set_hold(p_seq, m.until, m.reason);
  elsif v_outcome = 'moved' then perform ${s}.set_hold(p_seq, p_now + m.in_ms, null);
  elsif v_outcome = 'released' then perform ${s}.set_hold(p_seq, null, null);
  end if;
  return v_outcome;
end $$;

-- What an owned job stands for is on its way out: not where it or its owner is held. Who holds one of them waits for this.
create function ${s}.dismiss(p_step bigint, p_now bigint, p_seq bigint, m ${s}.move, p_dry boolean) returns text
language plpgsql as $$
declare
  j ${s}.jobs;
begin
  loop
    select b.* into j from ${s}.jobs b where b.seq = p_seq;
    if not found or j.owned_by is null or j.queue <> '${systemQueue}'
      or ${s}.state_of(j.seq, j.type, j.expires_at, p_now) <> 'pending' then
      return 'not_pending';
    end if;
    exit when p_dry;
    perform 1 from ${s}.pending p where p.type = j.type and p.seq = p_seq for update;
    exit when found;
  end loop;
  if not p_dry then perform 1 from ${s}.jobs b where b.id = j.owned_by for share; end if;
  if exists (select 1 from ${s}.jobs b where b.seq = p_seq and ${s}.is_held(b, p_now))
    or exists (select 1 from ${s}.jobs b where b.id = j.owned_by and ${s}.is_held(b, p_now)) then return 'held'; end if;
  if p_dry then return 'going'; end if;
  update ${s}.jobs b set cancel_at = coalesce(b.cancel_at, p_now), cancel_reason = coalesce(m.reason, b.cancel_reason),
    flags = b.flags | 4
  where b.seq = p_seq;
  if j.due_at > p_now then perform ${s}.stand_elsewhere(p_step, p_now, j, m); end if;
  return 'going';
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
