/** Hears what other processes publish, on a connection that is there while somebody listens. Only hints: all may be lost. */
import type { Ear } from '../../core/meeting.js';
import type { System } from '../../core/system.js';
import { type Connection, disconnect, keepNothingAlive, retryAfter } from './connection.js';
import type { Client } from './driver.js';
import type { Source } from './source.js';

type Hear = (payload: string | null) => void;

export interface Hearing extends Ear {
  close(): Promise<void>;
}

/** A connection that has silently gone looks like one on which nothing is said. */
const ping = { everyMs: 60_000, answerMs: 2_000 } as const;

export function createHearing(source: Source, connection: Connection, system: System): Hearing {
  const ears = new Map<string, Set<Hear>>();
  let client: Promise<Client> | null = null;
  let closed = false;
  /** A connection that is being closed. */
  let leaving: Promise<void> = Promise.resolve();

  function tell(channel: string, payload: string | null): void {
    for (const hear of ears.get(channel) ?? []) hear(payload);
  }
  /** What was said before is known to nobody here. */
  async function subscribe(to: Client, channels: readonly string[]): Promise<void> {
    if (to.status !== 'ready' || channels.length === 0) return;
    await system.awaiting(to.call('subscribe', channels));
    for (const channel of channels) tell(channel, null);
  }
  async function connect(): Promise<Client> {
    const made = source.isCluster ? connection.client : await source.create(retryAfter(system));
    made.on('error', () => undefined);
    made.on('ready', () => void subscribe(made, [...ears.keys()]).catch(() => undefined));
    made.on('message', tell);
    if (source.isCluster) return made;
    keepNothingAlive(made);
    keepTalking(made, system);
    made.connect().catch(() => undefined);
    return made;
  }
  async function leave(channel: string): Promise<void> {
    const from = client;
    if (!from) return;
    if (!source.isCluster && ears.size === 0) {
      client = null;
      leaving = from.then((on) => disconnect(on, system));
      return leaving;
    }
    const on = await from;
    if (!ears.has(channel) && on.status === 'ready') await on.call('unsubscribe', [channel]);
  }

  return {
    listen(channel, hear) {
      const known = ears.get(channel);
      const hears = known ?? new Set<Hear>();
      hears.add(hear);
      ears.set(channel, hears);
      client ??= connect();
      if (!known) void client.then((to) => subscribe(to, [channel])).catch(() => undefined);
      return () => {
        if (!hears.delete(hear) || hears.size > 0 || closed) return;
        ears.delete(channel);
        void leave(channel).catch(() => undefined);
      };
    },
    async close() {
      if (closed) return;
      closed = true;
      ears.clear();
      const from = client;
      client = null;
      if (from && !source.isCluster) await disconnect(await from, system);
      await leaving;
    },
  };
}

function keepTalking(client: Client, system: System): void {
  if (system.givenNow() !== null) return; // it would have to talk all the way when tests move the clock
  let callOff = (): void => undefined;
  function again(): void {
    callOff = system.timer(ping.everyMs, () => {
      callOff = system.timer(ping.answerMs, () => client.disconnect(true));
      system.awaiting(client.call('ping', [])).then(quiet, quiet);
    });
  }
  function quiet(): void {
    callOff();
    if (client.status === 'ready') again();
  }
  client.on('ready', quiet);
  client.on('close', () => callOff());
}
