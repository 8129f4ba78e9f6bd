/**
 * The one connection beside the pool. It hears notifications, which are hints: without it polling does everything. And it
 * can be asked whether the server still works for another connection, whose answer does not come.
 */
import type { System } from '../../core/system.js';
import type { Connection } from './connection.js';
import { breakOff, type PgNotification, type PgQuery, types } from './driver.js';

/** Gets what was sent to a channel; null: something may have been missed. */
export type Hear = (payload: string | null) => void;

export interface Ear {
  /** `channel` is a name as it is, not quoted. Keeps no process alive. */
  listen(channel: string, hear: Hear): () => void;
  /** Whether that process of the server is busy; rejects when nobody answers. */
  isAtWork(pid: number): Promise<boolean>;
  end(): Promise<void>;
}

const answerMs = 1_000;
/** Of the connection that may have gone the same way as the one it is asked about. */
const quickAnswerMs = 500;
/** A connection that has silently gone looks like one on which nothing happens. */
const pingMs = 30_000;
const backoffMs = { first: 100, most: 5_000 } as const;

/** Null: connections beside the pool cannot be made. */
export function createEar(connect: (() => Promise<Connection>) | null, system: System): Ear {
  const channels = new Map<string, Set<Hear>>();
  let current: Connection | null = null;
  /** The one that was told to listen: others are made to ask something. */
  let listening: Connection | null = null;
  let connecting: Promise<Connection> | null = null;
  /** Statements one after the other, as the driver wants them. */
  let last: Promise<unknown> = Promise.resolve();
  let failures = 0;
  let callOffTry: (() => void) | null = null;
  let callOffPing: (() => void) | null = null;
  /** Behind a pooler, a session that listens would be given to strangers. */
  let deaf = connect === null;
  let ended = false;
  /** The last one that nobody wants to hear any more, until it is gone. */
  let leaving: Promise<void> = Promise.resolve();

  function reach(): Promise<Connection> {
    if (current) return Promise.resolve(current);
    connecting ??= connect!().then(
      async (made) => {
        connecting = null;
        failures = 0;
        if (ended) await made.close();
        else adopt(made);
        return made;
      },
      (error: unknown) => {
        connecting = null;
        failures += 1;
        throw error;
      },
    );
    return connecting;
  }

  function adopt(made: Connection): void {
    current = made;
    made.client.unref();
    made.client.on('notification', dispatch);
    made.onLost(() => {
      if (current !== made) return;
      current = null;
      callOffPing?.();
      keepUp();
    });
    deaf = made.pid === null;
    callOffPing = system.timer(pingMs, ping);
  }

  function dispatch({ channel, payload }: PgNotification): void {
    for (const hear of channels.get(channel) ?? []) hear(payload ?? '');
  }

  /** Listens as long as somebody wants to hear, and goes when nobody does. */
  function keepUp(): void {
    if (ended || callOffTry || connecting) return;
    if (deaf || channels.size === 0) return letGo();
    if (current && current === listening) return;
    if (failures === 0) return void begin();
    const ms = Math.min(backoffMs.most, backoffMs.first * 2 ** (failures - 1));
    callOffTry = system.timer(ms * (0.5 + system.random() / 2), () => {
      callOffTry = null;
      void begin();
    });
  }

  async function begin(): Promise<void> {
    try {
      listening = await reach();
      if (deaf) return letGo();
      for (const channel of [...channels.keys()]) await say(`listen ${quoted(channel)}`);
      // What was sent before is known to nobody here.
      for (const hears of channels.values()) for (const hear of hears) hear(null);
    } catch {
      // Whoever lost the connection, or could not have one, tries again.
    }
    keepUp();
  }

  function letGo(): void {
    const gone = current;
    current = null;
    callOffPing?.();
    if (gone) leaving = gone.close();
  }

  async function say(text: string): Promise<void> {
    if (current) await ask(current, { text });
  }

  /** A connection that does not answer in time is given up. */
  function ask(
    connection: Connection,
    query: PgQuery,
    withinMs: number = answerMs,
  ): Promise<{ readonly rows: unknown[] }> {
    const turn = last.then(async () => {
      const callOff = system.timer(withinMs, () => breakOff(connection.client));
      try {
        return await system.awaiting(connection.client.query(query));
      } finally {
        callOff();
      }
    });
    last = turn.catch(() => undefined);
    return turn;
  }

  function ping(): void {
    if (!current) return;
    ask(current, { text: 'select 1' }).catch(() => undefined);
    callOffPing = system.timer(pingMs, ping);
  }

  return {
    listen(channel, hear) {
      const hears = channels.get(channel) ?? new Set();
      const isNew = hears.size === 0;
      channels.set(channel, hears.add(hear));
      if (isNew && current && current === listening) {
        const tell = (): void => hears.forEach((each) => each(null));
        say(`listen ${quoted(channel)}`).then(tell, () => undefined);
      }
      keepUp();
      return () => {
        if (!hears.delete(hear) || hears.size > 0) return;
        channels.delete(channel);
        if (channels.size > 0) say(`unlisten ${quoted(channel)}`).catch(() => undefined);
        keepUp();
      };
    },
    async isAtWork(pid) {
      const query: PgQuery = { text: atWork, values: [pid], rowMode: 'array', types };
      const known = current;
      try {
        const withinMs = known ? quickAnswerMs : answerMs;
        const answer = await reach().then((connection) => ask(connection, query, withinMs));
        return answer.rows.length > 0;
      } catch (error) {
        // The one that was there may have gone the same way; a new one tells.
        if (!known || ended) throw error;
        return (await ask(await reach(), query)).rows.length > 0;
      } finally {
        keepUp();
      }
    },
    async end() {
      ended = true;
      callOffTry?.();
      callOffPing?.();
      channels.clear();
      const open = current ?? (await connecting?.catch(() => null));
      current = null;
      await Promise.all([leaving, open?.close()]);
    },
  };
}

/** Between the statements of a transaction it waits for the client, as when it is idle. */
const atWork = `select 1 from pg_stat_activity where pid = $1 and state is distinct from 'idle'
  and state is distinct from 'idle in transaction'`;

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
