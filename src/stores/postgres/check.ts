/** What only the server knows about how safe the data are. */
import { types } from './driver.js';
import type { Run } from './run.js';

export interface Warning {
  readonly code: string;
  readonly message: string;
}

type Row = readonly [fsync: string, commit: string, isStandby: boolean, isolation: string];

const text = `select current_setting('fsync'), current_setting('synchronous_commit'), pg_is_in_recovery(),
  current_setting('default_transaction_isolation')`;

export async function warningsOf(run: Run, where: string): Promise<readonly Warning[]> {
  const [row] = await run(() => ({ text, rowMode: 'array', types }), 'reading');
  return warningsIn(row as unknown as Row, where);
}

function warningsIn([fsync, commit, isStandby, isolation]: Row, where: string): Warning[] {
  const found: Warning[] = [];
  const warn = (code: string, message: string): void => void found.push({ code, message: `${where} ${message}` });
  if (fsync === 'off') warn('FSYNC_OFF', 'runs with fsync = off: a power loss may damage everything in it.');
  if (commit === 'off')
    warn(
      'SYNCHRONOUS_COMMIT_OFF',
      'runs with synchronous_commit = off on these connections: a crash may take back what was acknowledged, ' +
        'and two workers may then run the same job. Set it to on for this role.',
    );
  if (isStandby) warn('STANDBY', 'is a standby, which cannot be written: give the URL of the primary.');
  if (isolation !== 'read committed')
    warn(
      'ISOLATION',
      `begins transactions as ${isolation}: calls get in each other's way more often than they need to.`,
    );
  return found;
}
