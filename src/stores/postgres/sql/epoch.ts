/**
 * The numbers of claims, which fence what their jobs do outside. They grow by more than one where the clock is ahead: a server that
 * has lost its last numbers, because a standby that lagged was promoted or a backup was restored, gives none of them again.
 */
import { epochMax } from '../../../core/epoch.js';

/** Microseconds, as on the other stores. With each promotion a minute is added, for a new primary whose clock is behind. */
const timelineUs = 60_000_000;
/** How far ahead of the clock a leap goes, so that not each claim has to leap. */
const leapUs = 100_000;
const timelinesMax = 1_000_000;

/** What the clock was, in microseconds, when the sequence was last set ahead. */
export const seenUs = (s: string): string =>
  `(coalesce(pg_sequence_last_value('${s}.claim_no'::regclass), 0) - ${s}.timeline() * ${timelineUs} - ${leapUs})`;

export const epoch = (s: string): string => `
-- The timeline of the server grows with each promotion. The control file learns of it late, so the name of the log is asked. Servers
-- that do not tell are taken at their clock alone.
create function ${s}.timeline() returns bigint language plpgsql as $$
begin
  return least(('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int, ${timelinesMax});
exception when others then return 0;
end $$;

-- The last one plus one, or what clock and timeline give, whichever is greater.
create function ${s}.next_epoch(p_now bigint) returns bigint language plpgsql as $$
declare
  v_least bigint := least(p_now * 1000 + ${s}.timeline() * ${timelineUs}, ${epochMax});
  v_epoch bigint := nextval('${s}.claim_no');
begin
  if v_epoch >= v_least then return v_epoch; end if;
  return ${s}.leap(v_least);
end $$;

-- A sequence never forgets what it gave (after a crash it goes on up to 32 further), and one at a time sets it ahead, so that nobody
-- sets it back. This is the last lock of a step. To set a sequence takes more rights than to draw from it: those of the owner.
create function ${s}.leap(p_least bigint) returns bigint language plpgsql
security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_epoch bigint;
begin
  perform pg_advisory_xact_lock('${s}.claims'::regclass::oid::int4, 0);
  v_epoch := nextval('${s}.claim_no');
  if v_epoch >= p_least then return v_epoch; end if;
  return setval('${s}.claim_no', least(p_least, ${epochMax}) + ${leapUs});
end $$;
`;
