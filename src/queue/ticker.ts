/** Fires schedules: claims what is due, plans its ticks, and settles all of it in one step. */
import { inDigits } from '../core/digits.js';
import type { Logger } from '../core/job.js';
import { fingerprint } from '../core/json.js';
import { systemQueue } from '../core/names.js';
import { printOf } from '../core/print.js';
import type { ClaimRequest, NewJob, Settlement, Store, StoredJob } from '../core/store.js';
import type { System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import { type Definition, type Memo, memoOf, readSchedule, scheduleType } from './schedule-job.js';
import { planTicks } from './ticks.js';

/** A crash, a tending and the parting of a job that met crashes together stay within the time that counts as on time. */
const leaseMs = 20_000;
/** Schedules fired in one step: with a hundred missed ticks each, still a bounded step. */
const batchMax = 20;
/** A schedule is never given up because its workers died. */
const maxStalls = 1_000_000_000;
/**
 * Whose claim was taken away follows no hint for a while: another process is awake, and if its clock is ahead it would
 * take the next claim away as well. Timers and tending go on.
 */
const deafMs = 60_000;
/**
 * Who met a schedule that it cannot fire (no codec, an old key, an unknown time zone, a newer form) cannot help claiming
 * it again while it is due. For a while it follows no hint and comes this much late, so that those who can are first.
 */
const shyMs = 60_000;
const lateMs = 1_000;
/** Schedules that one pass sets aside. They are held until its end, so that they hide no others. */
const asideMax = 1_000;
/** How often the same schedule is complained about. */
const complaintMs = 60_000;
const complaintsMax = 1_000;

export interface Ticker {
  /** Fires what is due. Never rejects: what fails is told to the logger and tried again. */
  tend(): Promise<void>;
  stop(): Promise<void>;
  /** A tick that this process knows of: it is there when it comes, and not only at the next tending. */
  expect(name: string, at: number): void;
  forget(name: string): void;
}

export interface TickerParts {
  readonly store: Store;
  readonly system: System;
  readonly logger: Logger;
}

export function createTicker(parts: TickerParts): Ticker {
  const { store, system, logger } = parts;
  const alarm = createAlarm(system, () => void tend());
  const firing = createFiring(parts, alarm.expect);
  let underWay: Promise<void> | null = null;
  let askedAgain = false;
  let callOffLate: (() => void) | null = null;
  const unsubscribe = store.subscribe((hint) => {
    if (hint.kind !== 'ready' || firing.isDeaf()) return;
    if (hint.types.has(scheduleType) || hint.types.has('*')) void tend();
  }, 'here');

  function tend(): Promise<void> {
    if (!firing.isShy()) return fire();
    callOffLate ??= system.timer(lateMs, () => {
      callOffLate = null;
      void fire();
    });
    return Promise.resolve();
  }
  /** One pass at a time; who asks during one waits for the next, which sees what he saw. */
  function fire(): Promise<void> {
    if (underWay) {
      askedAgain = true;
      return underWay;
    }
    underWay = fireAll().finally(() => {
      underWay = null;
    });
    return underWay;
  }
  async function fireAll(): Promise<void> {
    do {
      askedAgain = false;
      try {
        await firing.pass();
      } catch (error) {
        if (!firing.stopped)
          logger.error('Firing schedules failed; it is tried again', { error: describeThrown(error).message });
        return;
      }
    } while (askedAgain && !firing.stopped);
  }

  return {
    tend,
    expect: alarm.expect,
    forget: alarm.forget,
    async stop() {
      firing.stopped = true;
      alarm.stop();
      callOffLate?.();
      unsubscribe();
      await underWay;
    },
  };
}

/** Rings at the ticks that this process knows of. */
function createAlarm(system: System, ring: () => void) {
  const expected = new Map<string, number>();
  let callOff: () => void = () => undefined;
  let armedFor = Number.POSITIVE_INFINITY;
  let stopped = false;

  function arm(at: number): void {
    if (at >= armedFor || stopped) return;
    callOff();
    armedFor = at;
    callOff = system.timer(Math.max(0, at - system.now()), () => {
      const now = Math.max(system.now(), armedFor);
      armedFor = Number.POSITIVE_INFINITY;
      let first = Number.POSITIVE_INFINITY;
      for (const [name, next] of expected) {
        if (next <= now) expected.delete(name);
        else first = Math.min(first, next);
      }
      arm(first);
      ring();
    });
  }
  return {
    expect(name: string, at: number): void {
      expected.set(name, at);
      arm(at);
    },
    forget: (name: string): void => void expected.delete(name),
    stop(): void {
      stopped = true;
      callOff();
    },
  };
}

interface Firing {
  stopped: boolean;
  isDeaf(): boolean;
  isShy(): boolean;
  pass(): Promise<void>;
}

function createFiring({ store, system, logger }: TickerParts, expect: Ticker['expect']): Firing {
  const owner = system.id();
  const request: ClaimRequest = {
    owner,
    types: [scheduleType],
    queues: [systemQueue],
    slots: batchMax,
    ahead: 0,
    leaseMs,
    maxStalls,
  };
  const complain = complaints(system, logger);
  let unsure = false;
  let deafUntil = Number.NEGATIVE_INFINITY;
  let shyUntil = Number.NEGATIVE_INFINITY;

  function handBack(held: readonly Pick<Settlement, 'id' | 'epoch'>[]): Promise<unknown> {
    const settlements = held.map(({ id, epoch }): Settlement => ({ id, epoch, ending: { kind: 'release' } }));
    return store.settle({ owner, settlements, started: [], next: null });
  }
  /** After an error, what was claimed would be kept until it lapses; a claim whose answer was lost, too. */
  async function handBackUnknown(): Promise<void> {
    const claims = await store.readClaims(owner);
    const held = claims.flatMap(({ epoch, ids }) => ids.map((id) => ({ id, epoch })));
    if (held.length > 0) {
      // The hint of it would bring us back at once, to a store that may still refuse.
      deafUntil = system.monotonic() + deafMs;
      await handBack(held);
    }
    unsure = false;
  }

  async function fireDue(): Promise<void> {
    const aside: Pick<Settlement, 'id' | 'epoch'>[] = [];
    let claimed = await store.claim(request);
    while (claimed.jobs.length > 0) {
      const { epoch, at, jobs } = claimed;
      const settlements: Settlement[] = [];
      for (const job of jobs) {
        try {
          settlements.push(settlementOf(job, epoch, at, expect));
        } catch (error) {
          complain(job, describeThrown(error).message);
          aside.push({ id: job.id, epoch });
        }
      }
      const next = firing.stopped || aside.length >= asideMax ? null : request;
      const settled = await store.settle({ owner, settlements, started: [], next });
      for (const [index, { id }] of settlements.entries()) {
        if (settled.answers[index] === 'STALE_CLAIM') deafUntil = system.monotonic() + deafMs;
        if (settled.answers[index] !== 'UNSERIALIZABLE') continue;
        complain(jobs.find((job) => job.id === id)!, 'The codec could not encode what its tick brings');
        aside.push({ id, epoch });
      }
      if (!settled.claimed) break;
      claimed = settled.claimed;
    }
    if (aside.length === 0) return;
    // Before they are free: the hint of that is for others.
    shyUntil = system.monotonic() + shyMs;
    await handBack(aside);
  }

  const firing: Firing = {
    stopped: false,
    isDeaf: () => system.monotonic() < Math.max(deafUntil, shyUntil),
    isShy: () => system.monotonic() < shyUntil,
    async pass() {
      if (firing.stopped) return;
      if (unsure) await handBackUnknown();
      unsure = true;
      await fireDue();
      unsure = false;
    },
  };
  return firing;
}

/** Throws for one that cannot be fired here; it may be one that others can. */
function settlementOf(job: StoredJob, epoch: number, now: number, expect: Ticker['expect']): Settlement {
  const known = readSchedule(job);
  if (!known) throw new Error('Its definition cannot be read');
  const { definition, memo } = known;
  const { fire, seen, next } = planTicks(definition.rhythm, definition.missed, memo.seen, now);
  const settlement = { id: job.id, epoch, then: fire.map((tick) => tickJob(definition, tick)) };
  if (next === null) return { ...settlement, ending: { ...over } }; // a codec remembers what it has made of an ending
  expect(definition.name, next);
  const memory: Memo = { seen, last: fire.at(-1) ?? memo.last };
  return { ...settlement, ending: { kind: 'snooze', when: { at: next } }, memo: memoOf(memory) };
}

/** Tells of each schedule once in a while. */
function complaints(system: System, logger: Logger) {
  const quietUntil = new Map<string, number>();
  return ({ key, id }: StoredJob, error: string): void => {
    const now = system.monotonic();
    if ((quietUntil.get(id) ?? now) > now) return;
    if (quietUntil.size >= complaintsMax) quietUntil.clear();
    quietUntil.set(id, now + complaintMs);
    logger.error('A schedule cannot be fired; it is tried again', { schedule: key, error });
  };
}

const over = {
  kind: 'cancel',
  error: JSON.stringify({ code: 'CANCELLED', message: 'The schedule has no tick to come' }),
} as const;

/** A delay counts from the tick, however late it is fired. */
function tickJob({ name, job }: Definition, tick: number): NewJob {
  const own = job.metadata === null ? {} : (JSON.parse(job.metadata) as object);
  const id = tickId(name, tick);
  return {
    ...job,
    id,
    idGiven: true,
    print: printOf(id, job.type, job.input),
    when: 'inMs' in job.when ? { at: tick + job.when.inMs } : job.when,
    metadata: JSON.stringify({ ...own, schedule: name, tick: new Date(tick).toISOString() }),
  };
}

/**
 * The same for the same tick of the same schedule, whoever fires it, and ordered by time like any id. The settlement
 * alone makes a tick fire once; the id holds also across a schedule that is changed while it fires.
 */
function tickId(name: string, tick: number): string {
  return inDigits(tick) + inDigits(Number.parseInt(fingerprint(`${name} ${tick}`), 36));
}
