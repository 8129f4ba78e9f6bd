/**
 * One connection for commands, made anew whenever it is lost. A command waits a while for a connection; once written it
 * is answered, refused, or told that its answer was lost.
 */
import { LastoutError } from '../../core/errors.js';
import { atMost, type System } from '../../core/system.js';
import type { Client } from './driver.js';
import { isMoving, isUnsent, refusedGreeting, repeatable, translate, unreachable } from './errors.js';
import { type Ask, type Confirming, createConfirming } from './replicas.js';
import type { Source } from './source.js';

export type Args = readonly (string | number)[];

export type Behind = (ask: Ask) => Promise<void>;

export interface Connection {
  readonly where: string;
  readonly client: Client;
  readonly isReady: boolean;
  /** Resolves when a command can be written; fails with STORE_UNAVAILABLE after a while, with STORE_DENIED at once. */
  ready(hold?: 'hold'): Promise<void>;
  readonly confirming: Confirming;
  /** `behind` follows it in the same turn on the same connection, and the answer waits for both. */
  send(command: string, args: Args, behind?: Behind): Promise<unknown>;
  /** What may be repeated: to each node of a cluster that takes writes, or to the one server. */
  sendToAll(command: string, args: Args): Promise<readonly unknown[]>;
  close(): Promise<void>;
}

/** How long a command waits for a connection. */
const waitMs = 3_000;
/** How long a command waits for a cluster that moves the namespace to another node, and how often it is sent meanwhile. */
const moving = { waitMs: 10_000, everyMs: 100 } as const;
/** A server from which nothing comes in so many looks is taken for gone, and its connection is given up. */
const silence = { lookMs: 250, looks: 9 } as const;
const retry = { leastMs: 50, mostMs: 1_000 } as const;

/** 50 ms at first, a second at most, spread so that many processes do not come back together. */
export function retryAfter(system: System): (times: number) => number {
  return (times) => {
    const wait = Math.min(retry.leastMs * 2 ** Math.min(times - 1, 10), retry.mostMs);
    return Math.ceil(wait * (0.5 + system.random() / 2));
  };
}

export async function createConnection(source: Source, system: System): Promise<Connection> {
  const client = await source.create(retryAfter(system));
  keepNothingAlive(client);
  return connectionOf(client, source.where, system);
}

/** A process ends when its own work is done, connected or not. */
export function keepNothingAlive(client: Client): void {
  client.on('connect', () => {
    client.stream?.unref?.();
    for (const { client: sentinel } of client.connector?.failoverDetector?.sentinels ?? []) {
      sentinel.on('error', () => undefined); // one of several may be away, and ioredis would print it
      keepNothingAlive(sentinel);
    }
  });
  client.on('reconnecting', () => client.reconnectTimeout?.unref?.());
}

interface Waiting {
  resolve(): void;
  reject(error: LastoutError): void;
}

function connectionOf(client: Client, where: string, system: System): Connection {
  const waiting = new Set<Waiting>();
  let closed = false;
  /** We have given it up, and it is not over yet. */
  let leaving = false;
  /** What this connection was refused when it was made; the next one may fare better. */
  let refusal: LastoutError | null = null;
  let lastError: unknown = null;

  client.on('error', (error: unknown) => {
    lastError = error;
    refusal ??= refusedGreeting(error, where);
    if (refusal) for (const each of waiting) each.reject(refusal);
  });
  client.on('ready', () => {
    if (refusal) return;
    lastError = null;
    for (const each of waiting) each.resolve();
  });
  client.on('close', () => {
    leaving = false;
    refusal = null;
    confirming.lost();
  });

  const isReady = (): boolean => client.status === 'ready' && !leaving && refusal === null;

  function leave(): void {
    if (closed || leaving || client.status !== 'ready') return;
    leaving = true;
    client.disconnect(true);
  }
  const watched = watchSilence(system, leave);
  const confirming = createConfirming(where, system, leave);

  function ready(hold?: 'hold'): Promise<void> {
    if (closed) return Promise.reject(closedError());
    if (isReady()) return Promise.resolve();
    if (client.status === 'wait' || client.status === 'end') client.connect().catch(() => undefined);
    return new Promise((resolve, reject) => {
      const over = (): void => {
        callOff();
        waiting.delete(one);
      };
      const one: Waiting = {
        resolve: () => (over(), resolve()),
        reject: (error) => (over(), reject(error)),
      };
      const callOff = system.timer(waitMs, () => one.reject(unreachable(where, lastError)), hold);
      waiting.add(one);
    });
  }

  async function answer(from: Client, command: string, args: Args): Promise<unknown> {
    watched.sent();
    try {
      return await system.awaiting(from.call(command, args));
    } finally {
      watched.answered();
    }
  }
  /** What was not written may be written to the next connection. What a moving slot refused may be sent again. */
  async function send(command: string, args: Args, behind?: Behind, to: Client = client): Promise<unknown> {
    const began = system.monotonic();
    for (let tries = 1; ; tries++) {
      if (!isReady()) await ready();
      try {
        const answered = answer(to, command, args);
        const confirmed = behind?.((...more) => answer(to, ...more));
        confirmed?.catch(() => undefined); // what was refused needs no replicas
        const value = await answered;
        if (confirmed) await confirmed;
        return value;
      } catch (error) {
        if (isUnsent(error) && !client.nodes && tries < 3) {
          leaving = client.status === 'ready'; // its end is near, and not told yet
          continue;
        }
        const known = translate(error, where);
        if (isMoving(known) && system.monotonic() - began < moving.waitMs) {
          await new Promise<void>((resolve) => void system.timer(moving.everyMs, resolve));
          continue;
        }
        if (known.code === 'STORE_READONLY') leave(); // after a failover the name may lead to the new primary
        throw known;
      }
    }
  }

  return {
    where,
    client,
    get isReady() {
      return isReady();
    },
    ready,
    confirming,
    send: (command, args, behind) => send(command, args, behind),
    async sendToAll(command, args) {
      if (!isReady()) await ready();
      const nodes = client.nodes?.('master') ?? [client];
      return Promise.all(nodes.map((node) => repeatable(send(command, args, undefined, node), where)));
    },
    async close() {
      if (closed) return;
      closed = true;
      watched.stop();
      for (const each of waiting) each.reject(closedError());
      await disconnect(client, system);
    },
  };
}

/**
 * Gives a connection up on which commands wait and nothing comes back. One look serves all calls of its time, so that a
 * call costs no timer; only under a clock that tests move, which should find none, it ends with the last call.
 */
function watchSilence(system: System, giveUp: () => void): { sent(): void; answered(): void; stop(): void } {
  let underWay = 0;
  let answers = 0;
  let callOff: (() => void) | null = null;

  function look(seen: number, quiet: number): void {
    callOff = system.timer(silence.lookMs, () => {
      callOff = null;
      if (underWay === 0) return;
      const nowQuiet = answers === seen ? quiet + 1 : 0;
      if (nowQuiet >= silence.looks) giveUp();
      look(answers, nowQuiet % silence.looks);
    });
  }
  function stop(): void {
    callOff?.();
    callOff = null;
  }
  return {
    sent() {
      underWay += 1;
      if (!callOff) look(answers, 0);
    },
    answered() {
      underWay -= 1;
      answers += 1;
      if (underWay === 0 && system.givenNow() !== null) stop();
    },
    stop,
  };
}

/** Resolves when the socket is closed. */
export async function disconnect(client: Client, system: System): Promise<void> {
  const open = ['connecting', 'connect', 'ready'].includes(client.status);
  const ended = new Promise<void>((resolve) => client.on('end', resolve));
  client.disconnect();
  if (open) await atMost(system, endMs, system.awaiting(ended));
}

const endMs = 1_000;

function closedError(): LastoutError {
  return new LastoutError('CLOSED', 'The store is closed.');
}
