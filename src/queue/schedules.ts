/**
 * Schedules. Each is one live job that keeps what it has seen; a tick is fired by settling that job: the next instant,
 * the memory of this one and the tick's job are written in one step of the store, so no crash comes between them.
 */
import { isUnknown } from '../core/deadlines.js';
import { LastoutError } from '../core/errors.js';
import type { JobOptions, Logger } from '../core/job.js';
import { fingerprint } from '../core/json.js';
import { checkName, systemQueue } from '../core/names.js';
import { defaults } from '../core/policy.js';
import { printOf } from '../core/print.js';
import {
  type ClaimRequest,
  type Inserted,
  type NewJob,
  noFilter,
  type Settlement,
  type Store,
  type StoredJob,
} from '../core/store.js';
import type { System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import { refusal } from './gather.js';
import type { JobMaker } from './new-job.js';
import {
  type Carried,
  type Definition,
  jobOf,
  type Memo,
  memoOf,
  readSchedule,
  sameDefinition,
  sameRhythm,
  scheduleType,
  type Template,
} from './schedule-job.js';
import { nextTick, planTicks, readWhen, type ScheduleWhen } from './ticks.js';

export interface Schedule {
  readonly name: string;
  readonly type: string;
  /** The first tick that is not dealt with; in the past while the queue `lastout` is paused. */
  readonly next: Date;
  /** The last tick that gave a job. */
  readonly last: Date | null;
  readonly paused: boolean;
}

export interface Schedules {
  schedule(name: string, type: unknown, input: unknown, when: ScheduleWhen, options?: JobOptions): Promise<void>;
  unschedule(name: string): Promise<boolean>;
  schedules(): Promise<readonly Schedule[]>;
  /** Fires what is due. Never rejects: what fails is told to the logger and tried again. */
  tend(): Promise<void>;
  stop(): Promise<void>;
}

/** A crash, a tending and the parting of a job that met crashes together stay within the time that counts as on time. */
const leaseMs = 20_000;
/** Schedules fired in one step: with a hundred missed ticks each, still a bounded step. */
const batchMax = 20;
/** A schedule is never given up because its workers died. */
const maxStalls = 1_000_000_000;
/** A definition that this process cannot read may be one that a newer one can. */
const unreadableMs = 60_000;
/**
 * Whose claim was taken away follows no hint for a while: another process is awake, and if its clock is ahead it would
 * take the next claim away as well. Timers and tending go on.
 */
const deafMs = 60_000;
const pageSize = 200;
/** Others may change the same schedule at the same time; the last one wins. */
const triesMax = 20;
const unknownMax = 1;

export interface ScheduleParts {
  readonly store: Store;
  readonly system: System;
  readonly logger: Logger;
  readonly maker: JobMaker;
}

export function schedulesOn(parts: ScheduleParts): Schedules {
  const { store, system } = parts;
  const ticker = createTicker(parts);

  async function liveOne(name: string): Promise<StoredJob | undefined> {
    const filter = { ...noFilter, types: [scheduleType], key: name, states: ['pending', 'processing'] as const };
    return (await store.find({ filter, cursor: null, limit: 1 })).jobs[0];
  }

  /** Every process sets its schedules when it starts: what is there already stays as it is, with its phase. */
  async function set(definition: Definition): Promise<void> {
    let unknown = 0;
    for (let tries = 0; tries < triesMax; tries++) {
      const live = await liveOne(definition.name);
      const known = live && readSchedule(live);
      // One that was asked to stop while it fires is as good as gone.
      if (known && live.cancelAt === null && sameDefinition(known.definition, definition)) {
        const next = nextTick(definition.rhythm, known.memo.seen);
        return next === null ? undefined : ticker.expect(definition.name, next);
      }
      // Due at once: the store's clock, not ours, decides where its ticks begin.
      const job = jobOf(system.id(), definition, carriedOver(definition, known), live ? 'replace' : 'skip');
      const outcome = await insertOne(store, job).catch((error: unknown) => {
        // Reading it back tells whether it arrived; a store that stays silent is not asked for ever.
        if (!isUnknown(error) || ++unknown > unknownMax) throw error;
        return null;
      });
      if (outcome === 'created' || outcome === 'replaced') return ticker.tend();
    }
    throw new LastoutError('STORE_UNAVAILABLE', `Schedule "${definition.name}" is being changed by others; try again.`);
  }

  return {
    async schedule(name, type, input, when, options) {
      checkName(name, 'The name of a schedule');
      refuseOptions(options);
      const { rhythm, missed } = readWhen(when, system.now());
      const made = await parts.maker.make(type, input, options);
      await set({ name, rhythm, missed, job: templateOf(name, made) });
    },
    async unschedule(name) {
      checkName(name, 'The name of a schedule');
      ticker.forget(name);
      const filter = { ...noFilter, types: [scheduleType], key: name, states: ['pending', 'processing'] as const };
      const move = { kind: 'remove', force: true } as const;
      const { items } = await store.move({ filter, move, dryRun: false, cursor: null, limit: pageSize });
      return items.some(({ outcome }) => outcome === 'removed');
    },
    async schedules() {
      const paused = await store.tally(lookOnly);
      const isPaused = paused.queues.some((queue) => queue.queue === systemQueue && queue.paused);
      const byName = new Map<string, Schedule>();
      const filter = { ...noFilter, types: [scheduleType], states: ['pending', 'processing'] as const };
      for (let cursor: string | null = null, more = true; more; more = cursor !== null) {
        const page: Awaited<ReturnType<Store['find']>> = await store.find({ filter, cursor, limit: pageSize });
        // Newest first: beside a successor, one that still runs is about to go.
        for (const job of page.jobs) if (!byName.has(job.key!)) byName.set(job.key!, viewOf(job, isPaused));
        cursor = page.next;
      }
      return [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    },
    tend: ticker.tend,
    stop: ticker.stop,
  };
}

/** Only the pauses of a tally are looked at. */
const lookOnly = {
  maxStoredJobs: Number.POSITIVE_INFINITY,
  jobRetentionMs: defaults.jobRetentionMs,
  cleanupIntervalMs: defaults.cleanupIntervalMs,
  useCompletedTime: true,
};

async function insertOne(store: Store, job: NewJob): Promise<Inserted['outcome']> {
  const [inserted] = await store.insert([job], { atomic: false });
  const refused = refusal(inserted!);
  if (refused) throw refused;
  return inserted!.outcome;
}

function refuseOptions(options: JobOptions | undefined): void {
  for (const name of ['id', 'runAt', 'tx'] as const) {
    if (options?.[name] === undefined) continue;
    const message = `The options of schedule: ${name} is of one job, and a schedule makes many; leave it out.`;
    throw new LastoutError('UNKNOWN_OPTION', message, { option: name });
  }
}

function templateOf(name: string, { id: _, idGiven: __, ...made }: NewJob): Template {
  return { ...made, source: made.source ?? `schedule:${name}` };
}

/** With the same rhythm the ticks go on where the old one was; another one begins now. */
function carriedOver(definition: Definition, known: ReturnType<typeof readSchedule> | undefined): Carried {
  if (!known) return { since: null, last: null };
  const { seen, last } = known.memo;
  return { since: sameRhythm(known.definition, definition) ? seen : null, last };
}

function viewOf(job: StoredJob, paused: boolean): Schedule {
  const known = readSchedule(job);
  return {
    name: job.key!,
    type: known?.definition.job.type ?? '',
    next: new Date((known && nextOf(known)) ?? job.scheduledFor),
    last: known && known.memo.last !== null ? new Date(known.memo.last) : null,
    paused,
  };
}

/** Null: none, or one that this process cannot tell, because it does not know the time zone. */
function nextOf({ definition, memo }: NonNullable<ReturnType<typeof readSchedule>>): number | null {
  try {
    return nextTick(definition.rhythm, memo.seen);
  } catch {
    return null;
  }
}

interface Ticker extends Pick<Schedules, 'tend' | 'stop'> {
  /** A tick that this process knows of: it is there when it comes, and not only at the next tending. */
  expect(name: string, at: number): void;
  forget(name: string): void;
}

function createTicker({ store, system, logger }: ScheduleParts): Ticker {
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
  const expected = new Map<string, number>();
  let callOff: () => void = () => undefined;
  let armedFor = Number.POSITIVE_INFINITY;
  let firing: Promise<void> | null = null;
  let askedAgain = false;
  let stopped = false;
  let unsure = false;
  let deafUntil = Number.NEGATIVE_INFINITY;
  const unsubscribe = store.subscribe((hint) => {
    if (system.monotonic() < deafUntil) return;
    if (hint.kind === 'ready' && (hint.types.has(scheduleType) || hint.types.has('*'))) void tend();
  });

  function arm(at: number): void {
    if (at >= armedFor || stopped) return;
    callOff();
    armedFor = at;
    callOff = system.timer(Math.max(0, at - system.now()), () => {
      const now = Math.max(system.now(), armedFor);
      armedFor = Number.POSITIVE_INFINITY;
      for (const [name, next] of expected) if (next <= now) expected.delete(name);
      arm(Math.min(...expected.values()));
      void tend();
    });
  }
  function expect(name: string, at: number): void {
    expected.set(name, at);
    arm(at);
  }

  /** One pass at a time; who asks during one waits for the next, which sees what he saw. */
  function tend(): Promise<void> {
    if (firing) {
      askedAgain = true;
      return firing;
    }
    firing = fireAll().finally(() => {
      firing = null;
    });
    return firing;
  }
  async function fireAll(): Promise<void> {
    do {
      askedAgain = false;
      try {
        await fireDue();
      } catch (error) {
        unsure ||= isUnknown(error);
        if (!stopped)
          logger.error('Firing schedules failed; it is tried again', { error: describeThrown(error).message });
        return;
      }
    } while (askedAgain && !stopped);
  }
  /** A claim whose answer was lost would keep its schedules until it lapses. */
  async function handBackUnknown(): Promise<void> {
    const held = await store.read({ log: 'claims', owner });
    const settlements = held.flatMap(({ epoch, ids }) =>
      ids.map((id): Settlement => ({ id, epoch, ending: { kind: 'release' } })),
    );
    if (settlements.length > 0) await store.settle({ owner, settlements, started: [], next: null });
    unsure = false;
  }
  async function fireDue(): Promise<void> {
    if (stopped) return;
    if (unsure) await handBackUnknown();
    let claimed = await store.claim(request);
    while (claimed.jobs.length > 0) {
      const { epoch, at } = claimed;
      const settlements = claimed.jobs.map((job) => settlementOf(job, epoch, at));
      const next = stopped ? null : request;
      const settled = await store.settle({ owner, settlements, started: [], next });
      if (settled.answers.includes('STALE_CLAIM')) deafUntil = system.monotonic() + deafMs;
      if (!settled.claimed) return;
      claimed = settled.claimed;
    }
  }

  function settlementOf(job: StoredJob, epoch: number, now: number): Settlement {
    try {
      const known = readSchedule(job);
      if (!known) throw new Error('Its definition cannot be read');
      const { definition, memo } = known;
      const { fire, seen, next } = planTicks(definition.rhythm, definition.missed, memo.seen, now);
      const settlement = { id: job.id, epoch, then: fire.map((tick) => tickJob(definition, tick)) };
      if (next === null) return { ...settlement, ending: over };
      expect(definition.name, next);
      const memory: Memo = { seen, last: fire.at(-1) ?? memo.last };
      return { ...settlement, ending: { kind: 'snooze', when: { at: next } }, memo: memoOf(memory) };
    } catch (error) {
      const about = { schedule: job.key, error: describeThrown(error).message };
      logger.error('A schedule cannot be fired; it is tried again', about);
      return { id: job.id, epoch, ending: { kind: 'snooze', when: { inMs: unreadableMs } } };
    }
  }

  return {
    tend,
    expect,
    forget: (name) => void expected.delete(name),
    async stop() {
      stopped = true;
      callOff();
      unsubscribe();
      await firing;
    },
  };
}

const over = {
  kind: 'cancel',
  error: JSON.stringify({ code: 'CANCELLED', message: 'The schedule has no tick to come' }),
} as const;

function tickJob({ name, job }: Definition, tick: number): NewJob {
  const own = job.metadata === null ? {} : (JSON.parse(job.metadata) as object);
  const id = tickId(name, tick);
  return {
    ...job,
    id,
    idGiven: true,
    print: printOf(id, job.type, job.input),
    metadata: JSON.stringify({ ...own, schedule: name, tick: new Date(tick).toISOString() }),
  };
}

const digits = '0123456789abcdefghjkmnpqrstvwxyz';

/**
 * The same for the same tick of the same schedule, whoever fires it, and ordered by time like any id. The settlement
 * alone makes a tick fire once; the id holds also across a schedule that is changed while it fires.
 */
function tickId(name: string, tick: number): string {
  return inDigits(tick) + inDigits(Number.parseInt(fingerprint(`${name} ${tick}`), 36));
}

/** The last ten digits of a number. */
function inDigits(number: number): string {
  let rest = number;
  let text = '';
  for (let i = 0; i < 10; i++) {
    text = digits[rest % 32]! + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}
