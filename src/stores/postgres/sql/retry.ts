/** Retry by hand: a new job like the old one. The old record stays as it ended, and says that it was retried. */
import { replacedText } from '../../../core/replaced.js';
import { newJobOf, unretried } from './columns.js';
import { owner } from './own.js';

const ofRetry = (s: string) => ({
  o: '0',
  seq: `nextval('${s}.job_no')`,
  id: 'p_new_id',
  given: 'false',
  in_ms: '0',
  dedup: "case when j.slot is null then 'none' else 'skip' end",
  flags: `j.flags & ~${4 | owner}`,
});

export const retry = (s: string): string => `
create function ${s}.is_used(p_id text) returns boolean language sql as $$
  select exists (select 1 from ${s}.jobs b where b.id = p_id) or exists (select 1 from ${s}.tombs t where t.id = p_id)
$$;

-- Null: the job is gone, or passed over.
create function ${s}.retry(p_step bigint, p_now bigint, j ${s}.jobs, m ${s}.move, p_dry boolean, p_new_id text)
returns ${s}.inserted language plpgsql as $$
declare
  n ${s}.new_job;
  o ${s}.jobs;
  d ${s}.done;
begin
  loop
    if ${s}.state_of(j.seq, j.type, j.expires_at, p_now) in ('pending', 'processing') then
      if not exists (select 1 from ${s}.jobs b where b.seq = j.seq) then return null; end if;
      return row('not_finished', null, null)::${s}.inserted;
    end if;
    if p_dry then
      select e.* into d from ${s}.done e where e.seq = j.seq;
    else
      -- Who retries it at the same moment is waited for.
      select e.* into d from ${s}.done e where e.seq = j.seq for update;
      if not found then
        -- Past its ttl, and not swept.
        perform 1 from ${s}.pending p where p.type = j.type and p.seq = j.seq for update;
        perform ${s}.expire(p_step, p_now, j, false);
        continue;
      end if;
    end if;
    if m.failures_only and d.state = 1 and d.error = '${replacedText}' then return null; end if;
    if d.retried_as = any(m.new_ids) then return row('retried', d.retried_as, null)::${s}.inserted; end if;
    if d.retried_as is not null and m.again is not true then
      return row('already_retried', d.retried_as, null)::${s}.inserted;
    end if;
    select b.* into o from ${s}.jobs b
    where b.seq = (select p.seq from ${s}.pending p where p.type = j.type and p.slot = j.slot);
    if o.seq is not null and (o.expires_at is null or o.expires_at > p_now) then
      return row('skipped', o.id, null)::${s}.inserted;
    end if;
    if ${s}.is_fenced(p_now, j.subject) then return row('skipped', null, null)::${s}.inserted; end if;
    if p_dry then return row('retried', null, null)::${s}.inserted; end if;
    -- All of its ids are used: it comes late, and another call has retried the job since.
    if p_new_id is null then
      return row(case when d.retried_as is null then 'skipped' else 'already_retried' end, d.retried_as, null)::${s}.inserted;
    end if;
    if o.seq is not null then perform ${s}.expire(p_step, p_now, o, false); end if;
    n := (${newJobOf('j', { ...unretried, ...ofRetry(s) })});
    if ${s}.create_job(p_step, p_now, n, j.id, false) then
      update ${s}.done e set retried_as = p_new_id where e.seq = j.seq;
      return row('retried', p_new_id, null)::${s}.inserted;
    end if;
  end loop;
end $$;
`;
