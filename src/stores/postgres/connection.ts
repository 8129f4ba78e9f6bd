/** One connection of our own: made, set up, and noticed when it goes. */
import type { System } from '../../core/system.js';
import { breakOff, type OwnClient, saidPid, types } from './driver.js';
import { unreachable } from './errors.js';

export interface Connection {
  readonly client: OwnClient;
  /** Of the server's process; null: something stands between, so that statements share sessions with strangers. */
  readonly pid: number | null;
  readonly isLost: boolean;
  /** Called at most once. */
  onLost(callback: () => void): void;
  /** Says goodbye, and hangs up on a server that does not take it. */
  close(): Promise<void>;
}

/** A statement that takes longer is taken back by the server, before its caller is told that the outcome is unknown. */
const statementMs = 10_000;
const goodbyeMs = 1_000;

/**
 * For this session alone, so only where no pooler would give it to others. A commit that is acknowledged before it is on
 * disk could be forgotten, and its claims given to others under the same numbers: so never.
 */
const setUp = `select pg_backend_pid() = $1, case when pg_backend_pid() = $1 then
  set_config('statement_timeout', '${statementMs}', false) ||
  set_config('idle_in_transaction_session_timeout', '${statementMs}', false) ||
  set_config('default_transaction_isolation', 'read committed', false) || set_config('jit', 'off', false) ||
  case current_setting('synchronous_commit') when 'off' then set_config('synchronous_commit', 'on', false) else '' end
end`;

export async function connect(make: () => OwnClient, where: string, system: System): Promise<Connection> {
  const client = make();
  let lost = false;
  const callbacks: (() => void)[] = [];
  const lose = (): void => {
    if (lost) return;
    lost = true;
    for (const callback of callbacks) callback();
  };
  client.on('error', lose);
  client.on('end', lose);
  try {
    await system.awaiting(client.connect());
    const pid = saidPid(client);
    const { rows } = await system.awaiting(client.query({ text: setUp, values: [pid], rowMode: 'array', types }));
    const [[isDirect]] = rows as [[boolean | null]];
    return {
      client,
      pid: isDirect ? pid : null,
      get isLost() {
        return lost;
      },
      onLost: (callback) => void callbacks.push(callback),
      close: () => close(client, system),
    };
  } catch (error) {
    breakOff(client);
    throw unreachable(error, where);
  }
}

function close(client: OwnClient, system: System): Promise<void> {
  const hangUp = system.timer(goodbyeMs, () => breakOff(client), 'hold');
  return system.awaiting(client.end()).then(hangUp, hangUp);
}
