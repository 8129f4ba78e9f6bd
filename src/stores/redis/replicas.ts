/**
 * A write counts when its replicas have it. Right behind it, on the same connection, goes a WAIT; and because a replica that
 * is behind, or has just left, may be the one that becomes the primary, those are waited for, too.
 */
import type { LastoutError } from '../../core/errors.js';
import type { StoreWarning } from '../../core/store.js';
import type { System } from '../../core/system.js';
import type { Args } from './connection.js';
import { isUnknownResult, unconfirmed } from './errors.js';

/** Written and answered on the one connection that the write went by. */
export type Ask = (command: string, args: Args) => Promise<unknown>;

/** Refused now what would be refused at every write. */
export async function expectWaiting({ send }: { readonly send: Ask }): Promise<void> {
  await send('wait', [0, 1]);
  await send('info', ['replication']);
}

export interface Confirming {
  /**
   * Called in the turn in which something was written: resolves when at least so many replicas have it, and all of those
   * that may take over. `touch`: what was asked may have changed nothing, and then WAIT would wait for nothing.
   */
  confirm(ask: Ask, least: number, touch: Args | null): Promise<void>;
  /** Something was written, and nobody knows which replicas have it: what is read now may be lost with the primary. */
  readonly isUnsure: boolean;
  unsure(): void;
  /** The connection is lost. */
  lost(): void;
}

/** `waitMs`: nothing else is served on the connection meanwhile. `inTimeMs` is less than the deadline of a call. */
const patience = { waitMs: 50, everyMs: 50, inTimeMs: 10_000 } as const;
/** A planned failover takes a second from the promotion of one replica until the others have left the old primary. */
const goneMs = 5_000;

interface Held {
  /** What was confirmed later has this one before it. */
  readonly number: number;
  readonly least: number;
  readonly until: number;
  resolve(): void;
  reject(error: LastoutError): void;
}

export function createConfirming(where: string, system: System, leave: () => void): Confirming {
  const known = createKnown(system);
  const held = new Set<Held>();
  let sent = 0;
  let probing = false;
  /** How many outcomes became unknown, and how many of these came before something that was confirmed. */
  let unknown = 0;
  let covered = 0;

  /** Right behind what was written: whether so many have it. */
  async function look(ask: Ask, least: number): Promise<boolean> {
    const waited = ask('wait', [known.expected(least), patience.waitMs]);
    const [acknowledged, info] = await Promise.all([waited, ask('info', ['replication'])]);
    const found = replicasIn(String(info));
    if (!found) throw new Error('it is a replica');
    return known.haveIt(found, Number(acknowledged)) >= least;
  }
  function release(upTo: number): void {
    for (const one of held)
      if (one.number <= upTo) {
        held.delete(one);
        one.resolve();
      }
  }
  function giveUp(one: Held, error: LastoutError): void {
    held.delete(one);
    one.reject(error);
  }
  /** One look for all that wait. */
  async function probe(ask: Ask): Promise<void> {
    if (probing) return;
    probing = true;
    try {
      while (held.size > 0) {
        const number = sent;
        const least = Math.max(...[...held].map((one) => one.least));
        if (await look(ask, least)) release(number);
        const now = system.monotonic();
        for (const one of held)
          if (now >= one.until) {
            giveUp(one, unconfirmed(where, one.least));
            leave(); // after a failover the name may lead to the new primary
          }
        if (held.size > 0) await new Promise<void>((resolve) => void system.timer(patience.everyMs, resolve));
      }
    } catch (error) {
      for (const one of held) giveUp(one, unconfirmed(where, one.least, error));
    } finally {
      probing = false;
    }
  }

  return {
    async confirm(ask, least, touch) {
      const number = ++sent;
      const before = unknown;
      const until = system.monotonic() + patience.inTimeMs;
      try {
        const touched = touch && ask('eval', touch);
        const [isThere] = await Promise.all([look(ask, least), touched]);
        if (isThere) release(number);
        else
          await new Promise<void>((resolve, reject) => {
            held.add({ number, least, until, resolve, reject });
            void probe(ask);
          });
      } catch (error) {
        throw isUnknownResult(error) ? error : unconfirmed(where, least, error);
      }
      if (touch) covered = Math.max(covered, before);
    },
    get isUnsure() {
      return unknown > covered;
    },
    unsure: () => void (unknown += 1),
    lost() {
      known.forget();
      for (const one of held) giveUp(one, unconfirmed(where, one.least));
    },
  };
}

interface Replica {
  readonly name: string;
  readonly offset: number;
}

/** Those that follow, the furthest first. Null: it is a replica itself. */
function replicasIn(info: string): readonly Replica[] | null {
  if (!/^role:master\r?$/m.test(info)) return null;
  const lines = info.matchAll(/^slave\d+:ip=(.*),port=(\d+),state=online,offset=(\d+)/gm);
  const found = [...lines].map(([, ip, port, offset]) => ({ name: `${ip}:${port}`, offset: Number(offset) }));
  return found.sort((a, b) => b.offset - a.offset);
}

/**
 * Why a server may not have the last word: by what it says of its replication, and what is wanted of it, here (`least`) or by
 * itself (min-replicas-to-write, null: this user may not ask). Null: it is the primary and lacks none.
 */
export function doubtIn(info: string, least: number | null, wanted: number | null): string | null {
  if (info === '') return 'it does not let this user ask whether it is the primary (INFO)';
  const attached = replicasIn(info);
  if (!attached) return 'it is a replica';
  if (attached.length < (least ?? 0))
    return `it has ${attached.length} of the ${least} replicas that must have a write`;
  const good = goodReplicas(info);
  if (good === null || (wanted !== null && good >= wanted)) return null;
  return 'it lacks replicas that it wants for a write (min-replicas-to-write), or does not let this user ask (CONFIG GET)';
}

/** Those that are near enough to be written; null: the server does not ask for any. */
export function goodReplicas(info: string): number | null {
  const good = /^min_slaves_good_slaves:(\d+)/m.exec(info)?.[1];
  return good === undefined ? null : Number(good);
}

interface Known {
  /** For how many a WAIT waits. */
  expected(least: number): number;
  /** How many have it, of which so many have acknowledged it; 0 while one that may take over has not. */
  haveIt(attached: readonly Replica[], acknowledged: number): number;
  forget(): void;
}

/** The replicas seen on this connection, and since when each has been away or behind; null: it is not. */
function createKnown(system: System): Known {
  const missing = new Map<string, number | null>();
  const mayTakeOver = (since: number | null): boolean => since === null || system.monotonic() - since < goneMs;

  return {
    expected: (least) => Math.max(least, [...missing.values()].filter(mayTakeOver).length),
    haveIt(attached, acknowledged) {
      const have = new Set(attached.slice(0, acknowledged).map(({ name }) => name));
      const here = new Set(attached.map(({ name }) => name));
      for (const [name, since] of missing) if (!here.has(name) && !mayTakeOver(since)) missing.delete(name);
      for (const name of new Set([...missing.keys(), ...here]))
        missing.set(name, have.has(name) ? null : (missing.get(name) ?? system.monotonic()));
      const isOneAwaited = [...missing.values()].some((since) => since !== null && mayTakeOver(since));
      return isOneAwaited ? 0 : have.size;
    },
    forget: () => missing.clear(),
  };
}

/** What `health` says about the replicas that are attached. */
export function replicaWarnings(
  { attached, isCluster }: { readonly attached: number; readonly isCluster: boolean },
  least: number | null,
  where: string,
): readonly StoreWarning[] {
  const count = attached === 1 ? '1 replica' : `${attached} replicas`;
  if (least === null && attached > 0) {
    const advice = isCluster ? '' : ' Open it with { replicas: 1 } to wait for them.';
    const message = `${where} has ${count} and does not wait for them: a failover may lose what was acknowledged last.${advice}`;
    return [{ code: 'REPLICAS_NOT_AWAITED', message }];
  }
  if (least === null || attached >= least) return [];
  const message = `${where} has ${count}, and ${least} must have a job before it is acknowledged: attach more.`;
  return [{ code: 'TOO_FEW_REPLICAS', message, blocks: true }];
}
