/** What only the server knows about how safe the data are, and whether it can be written. */
import { seenUs } from './epoch.js';
import { now } from './settings.js';

/** So much to sort does not fit into the memory that it gets, and goes to a file of 600 kB, which is gone with the call. */
const spilled = { rows: 1_500, width: 400, memory: '64kB' } as const;

export const health = (s: string): string => `
-- Whether the disk takes anything: tables grow on it as files do. Nothing is written to the log, and a standby can be asked too.
create function ${s}.is_disk_full() returns boolean language plpgsql stable set work_mem = '${spilled.memory}' as $$
begin
  perform 1 from (select rpad(md5(x.n::text), ${spilled.width}, '.') as text from generate_series(1, ${spilled.rows}) x(n)
    order by 1 offset ${spilled.rows - 1}) y;
  return false;
exception
  when disk_full then return true;
  when configuration_limit_exceeded then return false;
end $$;

-- One row. seen: what the clock was at the last claim. standbys: those that may be promoted, and whether one of them has what is
-- acknowledged; a role without the right to see more sees how many there are.
create function ${s}.read_health_v1(p_now bigint) returns table (
  at bigint, seen bigint, is_standby boolean, read_only text, disk_full boolean, fsync text, commits text, isolation text,
  standbys bigint, is_synchronous boolean, noted text, here text
) language plpgsql stable as $$
begin
  return query select ${now}, ${seenUs(s)} / 1000, pg_is_in_recovery(), current_setting('default_transaction_read_only'),
    ${s}.is_disk_full(), current_setting('fsync'), current_setting('synchronous_commit'),
    current_setting('default_transaction_isolation'),
    (select count(*) from pg_stat_replication r where r.state is distinct from 'backup' and not exists (
      select 1 from pg_replication_slots l where l.active_pid = r.pid and l.slot_type = 'logical')),
    current_setting('synchronous_standby_names') <> '' and current_setting('synchronous_commit') not in ('off', 'local'),
    (select m.value from ${s}.meta m where m.name = 'place'), ${s}.here();
end $$;
`;
