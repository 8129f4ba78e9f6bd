/** The connections of a store: as many as are asked for at once, up to a limit; lost ones are replaced when needed. */
import { LastoutError } from '../../core/errors.js';
import { atMost, type System } from '../../core/system.js';
import type { Connection } from './connection.js';
import { breakOff, type PgClient } from './driver.js';

/** A connection for one statement at a time. */
export interface Lent {
  readonly client: PgClient;
  /** Of the server's process, where it is known for sure. */
  readonly pid: number | null;
  /** Once. A broken connection is not used again. */
  giveBack(broken: boolean): void;
}

export interface Pool {
  /** Rejects when nothing has been sent. */
  lend(): Promise<Lent>;
  end(): Promise<void>;
}

export interface PoolParts {
  readonly max: number;
  readonly where: string;
  readonly system: System;
  connect(): Promise<Connection>;
}

/** How long a call waits for a connection; with the longest statement it stays below the deadline of a call. */
export const waitMs = 4_000;
const idleMs = 30_000;
const backoffMs = { first: 50, most: 1_000 } as const;
const endMs = 1_000;

interface Waiting {
  readonly take: (connection: Connection) => void;
  readonly refuse: (error: Error) => void;
}

export function createPool({ max, where, system, connect }: PoolParts): Pool {
  /** Open ones, lent or idle; the last one used is the next to be. */
  const members = new Set<Connection>();
  const idle: { readonly connection: Connection; readonly since: number }[] = [];
  const line = new Set<Waiting>();
  const opening = new Set<Promise<void>>();
  let failures = 0;
  let trouble: Error | null = null;
  let hadOne = false;
  let nextTryAt = Number.NEGATIVE_INFINITY;
  let ended = false;
  let callOffTry: (() => void) | null = null;
  let callOffTrim: (() => void) | null = null;
  let emptied: (() => void) | null = null;

  /** One more connection, if somebody waits for it. After a failure one at a time, and not at once. */
  function grow(): void {
    if (ended || opening.size >= line.size || members.size + opening.size >= max) return;
    if (failures > 0 && opening.size > 0) return;
    const inMs = nextTryAt - system.monotonic();
    if (inMs >= 1) {
      callOffTry ??= system.timer(inMs, () => {
        callOffTry = null;
        grow();
      });
      return;
    }
    const attempt: Promise<void> = connect()
      .then(join, fail)
      .then(() => {
        opening.delete(attempt);
        grow();
      });
    opening.add(attempt);
  }

  async function join(connection: Connection): Promise<void> {
    failures = 0;
    trouble = null;
    hadOne = true;
    if (ended) return connection.close();
    members.add(connection);
    connection.onLost(() => drop(connection));
    offer(connection);
  }

  /**
   * Who has other connections, or hopes for one, waits for it. A server that was there before may be restarting: it is
   * waited for too. Who never had one is told at once, and so is who may not.
   */
  function fail(error: Error): void {
    failures += 1;
    trouble = error;
    const ms = Math.min(backoffMs.most, backoffMs.first * 2 ** (failures - 1));
    nextTryAt = system.monotonic() + ms * (0.5 + system.random() / 2);
    if (members.size > 0 || opening.size > 1) return;
    if (hadOne && !(error instanceof LastoutError && error.code === 'STORE_DENIED')) return;
    for (const waiting of [...line]) waiting.refuse(error);
  }

  function offer(connection: Connection): void {
    if (connection.isLost) return drop(connection);
    const [next] = line;
    if (next) return next.take(connection);
    if (ended) return drop(connection);
    connection.client.unref();
    idle.push({ connection, since: system.monotonic() });
    callOffTrim ??= system.timer(idleMs, trim);
  }

  function drop(connection: Connection): void {
    const at = idle.findIndex((one) => one.connection === connection);
    if (at >= 0) idle.splice(at, 1);
    if (!members.delete(connection)) return;
    if (!connection.isLost) void connection.close();
    if (ended && members.size === 0) emptied?.();
    grow();
  }

  function trim(): void {
    callOffTrim = null;
    const oldest = system.monotonic() - idleMs;
    for (const { connection, since } of [...idle]) if (since <= oldest) drop(connection);
    if (idle.length > 0) callOffTrim = system.timer(idleMs, trim);
  }

  function lent(connection: Connection): Lent {
    const { client, pid } = connection;
    const lentAt = system.monotonic();
    client.ref();
    return {
      client,
      pid,
      giveBack(broken) {
        if (!broken) return offer(connection);
        breakOff(client);
        drop(connection);
        // What lay idle meanwhile may have gone the same way, and would keep the next callers as long.
        for (const { connection: other, since } of [...idle]) if (since <= lentAt) drop(other);
      },
    };
  }

  function stand(): Promise<Lent> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        callOff();
        line.delete(waiting);
      };
      const waiting: Waiting = {
        take(connection) {
          leave();
          resolve(lent(connection));
        },
        refuse(error) {
          leave();
          reject(error);
        },
      };
      const callOff = system.timer(waitMs, () =>
        waiting.refuse(trouble ?? (members.size > 0 ? busy(where, max) : silent(where))),
      );
      line.add(waiting);
      grow();
    });
  }

  return {
    lend() {
      if (ended) return Promise.reject(closed());
      const free = idle.pop();
      return free ? Promise.resolve(lent(free.connection)) : stand();
    },
    async end() {
      if (ended) return;
      ended = true;
      callOffTry?.();
      callOffTrim?.();
      for (const waiting of [...line]) waiting.refuse(closed());
      const goodbyes = idle.splice(0).map(({ connection }) => {
        members.delete(connection);
        return connection.close();
      });
      const empty = new Promise<void>((resolve) => {
        emptied = resolve;
        if (members.size === 0) resolve();
      });
      await atMost(system, endMs, Promise.all([empty, ...goodbyes, ...opening]));
      for (const { client } of members) breakOff(client);
    },
  };
}

function silent(where: string): LastoutError {
  const message = `${where} did not greet as PostgreSQL does for ${waitMs} ms: check the host and the port of the URL.`;
  return new LastoutError('STORE_UNAVAILABLE', message);
}

export function busy(where: string, max: number | null): LastoutError {
  const all = max === null ? 'the given pool had no connection to spare' : `all ${max} connections were busy`;
  return new LastoutError(
    'STORE_UNAVAILABLE',
    `${where} got nothing to do for ${waitMs} ms: ${all}. Nothing was sent.`,
  );
}

export function closed(): LastoutError {
  return new LastoutError('CLOSED', 'The store is closed.');
}
