/**
 * Jobs that are owned by another one: they are inserted under its claim, and it is not removed before them. Who adds one marks
 * the row of the owner (flag 8) before its commit, so that whoever removes the owner at that moment sees either the mark or
 * the owned job. A job without the mark owns nothing, and nobody looks.
 */
import { systemQueue } from '../../../core/names.js';

export const owner = 8;

export const own = (s: string): string => `
-- Whether that claim holds a job. It cannot end before this transaction has.
create function ${s}.is_under(p_seq bigint, p_epoch bigint, p_owner text) returns boolean language plpgsql as $$
begin
  if not exists (select 1 from ${s}.claims c where c.epoch = p_epoch and c.owner = p_owner and p_seq = any(c.seqs)) then
    return false;
  end if;
  perform 1 from ${s}.claims c where c.epoch = p_epoch for key share skip locked;
  if not found then perform ${s}.step_back(p_epoch); end if;
  return exists (select 1 from ${s}.jobs b where b.seq = p_seq and b.epoch < p_epoch
    and not exists (select 1 from ${s}.done d where d.seq = b.seq offset 0));
end $$;

-- Ties a job on its way in to its owner, and to the claim that it comes under. Null: it is tied; else why it cannot be.
create function ${s}.tie(n ${s}.new_job) returns text language plpgsql as $$
begin
  if n.under_epoch is not null then
    if n.owned_by is not null and not exists (select 1 from ${s}.jobs b where b.id = n.owned_by) then return 'JOB_NOT_FOUND'; end if;
    if not ${s}.is_under((select b.seq from ${s}.jobs b where b.id = coalesce(n.under_id, n.owned_by)), n.under_epoch, n.under_owner) then
      return 'STALE_CLAIM';
    end if;
  end if;
  if n.owned_by is null then return null; end if;
  update ${s}.jobs b set flags = b.flags | ${owner} where b.id = n.owned_by and b.flags & ${owner} = 0;
  if found then return null; end if;
  perform 1 from ${s}.jobs b where b.id = n.owned_by for key share;
  return case when found then null else 'JOB_NOT_FOUND' end;
end $$;

create function ${s}.owns(p_id text) returns bigint language plpgsql stable as $$
begin
  return (select count(*) from ${s}.jobs o where o.owned_by = p_id and o.over is null);
end $$;

-- Of these jobs, those that own live ones, in the same order.
create function ${s}.owing_of(p_seqs bigint[]) returns bigint[] language plpgsql stable as $$
begin
  -- Most stores have no owned job at all: then nobody looks at each.
  if not exists (select 1 from ${s}.jobs o where o.owned_by is not null and o.over is null) then return '{}'; end if;
  return array(select x.seq from unnest(p_seqs) with ordinality x(seq, o)
    cross join lateral (select k.id, k.flags from ${s}.jobs k where k.seq = x.seq offset 0) b
    where b.flags & ${owner} <> 0 and exists (select 1 from ${s}.jobs o where o.owned_by = b.id and o.over is null)
    order by x.o);
end $$;

create function ${s}.is_held(j ${s}.jobs, p_now bigint) returns boolean language sql immutable as $$
  select coalesce(j.held_until > p_now and j.held_reason is not null, false)
$$;

-- Dismissed and not gone yet.
create function ${s}.is_dismissed(j ${s}.jobs) returns boolean language sql stable as $$
  select j.owned_by is not null and j.cancel_at is not null and j.queue = '${systemQueue}'
    and exists (select 1 from ${s}.pending p where p.type = j.type and p.seq = j.seq)
$$;

-- It is dismissed, or owns what is.
create function ${s}.is_losing(j ${s}.jobs) returns boolean language plpgsql stable as $$
begin
  return ${s}.is_dismissed(j) or (j.flags & ${owner} <> 0 and exists (select 1 from ${s}.jobs o
    where o.owned_by = j.id and o.over is null and o.cancel_at is not null and ${s}.is_dismissed(o)));
end $$;

-- What keeps a job from being removed: held, owing, or null. It stays as it is until this transaction has ended.
create function ${s}.keeps(p_now bigint, p_seq bigint, p_dry boolean) returns text language plpgsql as $$
declare
  j ${s}.jobs;
begin
  if not p_dry then perform 1 from ${s}.jobs b where b.seq = p_seq for update; end if;
  select b.* into j from ${s}.jobs b where b.seq = p_seq;
  return case when ${s}.is_held(j, p_now) then 'held'
    when j.flags & ${owner} <> 0 and exists (select 1 from ${s}.jobs o where o.owned_by = j.id and o.over is null) then 'owing' end;
end $$;
`;
