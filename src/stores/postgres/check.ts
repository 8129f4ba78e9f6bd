/** What only the server knows about how safe the data are, and whether it can be written. */
import { clockWarnings } from '../../core/epoch.js';
import { copyWarning } from '../../core/identity.js';
import type { StoreWarning } from '../../core/store.js';
import type { Call } from './call.js';

type Row = readonly [
  ...[at: number, seen: number, isStandby: boolean, readOnly: string, isDiskFull: boolean],
  ...[fsync: string, commits: string, isolation: string, standbys: number, isSynchronous: boolean],
  ...[noted: string | null, here: string],
];

export async function warningsOf(call: Call, now: number | null, where: string): Promise<readonly StoreWarning[]> {
  const [row] = (await call('read_health_v1', [now])) as unknown as readonly [Row];
  const [at, seen] = row;
  return [
    ...blocksIn(row, where),
    ...dangersIn(row, where),
    ...copiesIn(row, where),
    ...clockWarnings(at, seen * 1_000, 'the server'),
  ];
}

/** Nothing can be written. */
function blocksIn([, , isStandby, readOnly, isDiskFull]: Row, where: string): StoreWarning[] {
  const found: StoreWarning[] = [];
  const block = (code: string, message: string): void =>
    void found.push({ code, message: `${where} ${message}`, blocks: true });
  if (isStandby) block('STANDBY', 'is a standby, which cannot be written: give the URL of the primary.');
  else if (readOnly === 'on')
    block(
      'READ_ONLY',
      'begins transactions read-only, so nothing can be written: alter role … set default_transaction_read_only = off.',
    );
  if (isDiskFull)
    block('DISK_FULL', 'has a full disk: new jobs cannot be stored. Free some space; the next try works.');
  return found;
}

function dangersIn(row: Row, where: string): StoreWarning[] {
  const [, , isStandby, , , fsync, commits, isolation, standbys, isSynchronous] = row;
  const found: StoreWarning[] = [];
  const warn = (code: string, message: string): void => void found.push({ code, message: `${where} ${message}` });
  if (fsync === 'off') warn('FSYNC_OFF', 'runs with fsync = off: a power loss may damage everything in it.');
  if (commits === 'off')
    warn(
      'SYNCHRONOUS_COMMIT_OFF',
      'runs with synchronous_commit = off on these connections: a crash may take back what was acknowledged, ' +
        'and two workers may then run the same job. Set it to on for this role.',
    );
  if (isolation !== 'read committed')
    warn(
      'ISOLATION',
      `begins transactions as ${isolation}: each call takes three round trips, because it begins and commits its own. ` +
        `Let this role begin them otherwise: alter role … set default_transaction_isolation = 'read committed'.`,
    );
  if (standbys > 0 && !isStandby && !isSynchronous)
    warn(
      'ASYNCHRONOUS_STANDBY',
      `does not wait for ${standbys === 1 ? 'its standby' : `any of its ${standbys} standbys`}: if one is promoted, what was ` +
        'acknowledged last may be lost, and jobs may run twice. Set synchronous_standby_names, and leave synchronous_commit on.',
    );
  return found;
}

/** A server that does not tell its number is told by that of the database alone. */
function copiesIn({ 10: noted, 11: here }: Row, where: string): StoreWarning[] {
  if (noted === null) return [];
  const [theirServer, theirs] = noted.split('/');
  const [server, database] = here.split('/');
  const isSameServer = theirServer === '' || server === '' || theirServer === server;
  if (isSameServer && theirs === database) return [];
  const named = (place: string): string => `server and database ${place}`;
  return [copyWarning(where, named(noted), named(here))];
}
