/**
 * Schedules. Each is one live job that keeps what it has seen; a tick is fired by settling that job: the next instant,
 * the memory of this one and the tick's job are written in one step of the store, so no crash comes between them.
 */
import { isUnknown } from '../core/deadlines.js';
import { LastoutError } from '../core/errors.js';
import type { JobOptions, Logger } from '../core/job.js';
import type { Json } from '../core/json.js';
import { checkName, systemQueue } from '../core/names.js';
import { jobOptionNames } from '../core/options.js';
import { ownOptions } from '../core/own-options.js';
import { everyPage, moveEvery } from '../core/pages.js';
import { defaults } from '../core/policy.js';
import { type Inserted, type JobFilter, type NewJob, noFilter, type Store, type StoredJob } from '../core/store.js';
import type { System } from '../core/system.js';
import { acceptedOrThrow } from './gather.js';
import type { JobMaker } from './new-job.js';
import {
  type Carried,
  type Definition,
  jobOf,
  readSchedule,
  sameDefinition,
  sameRhythm,
  scheduleType,
  type Template,
} from './schedule-job.js';
import { createTicker } from './ticker.js';
import { isAstray, type Missed, nextTick, readWhen, type Rhythm, type ScheduleWhen } from './ticks.js';

export interface Schedule {
  readonly name: string;
  readonly type: string;
  /** Null: it goes by `every`; or, as what follows, this process cannot read the schedule. */
  readonly cron: string | null;
  /** Of `cron`. */
  readonly timeZone: string | null;
  /** In milliseconds; null: it goes by `cron`. */
  readonly every: number | null;
  readonly missed: Missed | null;
  /** Of each job, as it is stored. */
  readonly input: Json;
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

const liveSchedules: JobFilter = { ...noFilter, types: [scheduleType], states: ['pending', 'processing'] };
const where = 'The options of schedule';
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
    for await (const job of everyPage(store, { ...liveSchedules, key: name }, 1)) return job;
    return undefined;
  }

  /** Due at once: whoever claims it plans by the clock of the store, and leaves it as it is if it was ours that is off. */
  async function lookAgain(id: string): Promise<void> {
    const move = { kind: 'reschedule', when: { inMs: 0 }, priority: null } as const;
    await store.move({ filter: { ...noFilter, ids: [id] }, move, dryRun: false, cursor: null, limit: 1 });
    return ticker.tend();
  }

  /** Every process sets its schedules when it starts: what is there already stays as it is, with its phase. */
  async function set(definition: Definition): Promise<void> {
    let unknown = 0;
    for (let tries = 0; tries < triesMax; tries++) {
      const live = await liveOne(definition.name);
      const known = live && readSchedule(live);
      // One that was asked to stop while it fires is as good as gone.
      if (known && live.cancelAt === null && sameDefinition(known.definition, definition)) {
        if (isAstray(known.memo.seen, system.now())) return lookAgain(live.id);
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
      const own = ownOptions(options, jobOptionNames, where);
      refuseOptions(own);
      const { rhythm, missed } = readWhen(when, system.now());
      const made = await parts.maker.make(type, input, own, where);
      await set({ name, rhythm, missed, job: templateOf(name, made) });
    },
    async unschedule(name) {
      checkName(name, 'The name of a schedule');
      ticker.forget(name);
      const filter = { ...liveSchedules, key: name };
      const move = { kind: 'remove', force: true } as const;
      const items = await moveEvery(store, { filter, move, dryRun: false, limit: pageSize });
      return items.some(({ outcome }) => outcome === 'removed');
    },
    async schedules() {
      const paused = await store.tally(lookOnly);
      const isPaused = paused.queues.some((queue) => queue.queue === systemQueue && queue.paused);
      const byName = new Map<string, Schedule>();
      // Newest first: beside a successor, one that still runs is about to go.
      for await (const job of everyPage(store, liveSchedules, pageSize))
        if (!byName.has(job.key!)) byName.set(job.key!, viewOf(job, isPaused));
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
  return acceptedOrThrow(inserted!).outcome;
}

function refuseOptions(options: JobOptions): void {
  for (const name of ['id', 'runAt', 'tx'] as const) {
    if (options[name] === undefined) continue;
    const message = `${where}: ${name} is of one job, and a schedule makes many; leave it out.`;
    throw new LastoutError('UNKNOWN_OPTION', message, { option: name });
  }
}

/** Each tick has an id of its own, whatever the type says. */
function templateOf(name: string, { id: _, idGiven: __, ...made }: NewJob): Template {
  return { ...made, print: null, source: made.source ?? `schedule:${name}` };
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
    ...rhythmOf(known?.definition.rhythm),
    missed: known?.definition.missed ?? null,
    input: known ? (JSON.parse(known.definition.job.input) as Json) : null,
    next: new Date((known && nextOf(known)) ?? job.scheduledFor),
    last: known && known.memo.last !== null ? new Date(known.memo.last) : null,
    paused,
  };
}

function rhythmOf(rhythm: Rhythm | undefined): Pick<Schedule, 'cron' | 'timeZone' | 'every'> {
  if (rhythm === undefined) return { cron: null, timeZone: null, every: null };
  if ('everyMs' in rhythm) return { cron: null, timeZone: null, every: rhythm.everyMs };
  return { cron: rhythm.cron, timeZone: rhythm.timeZone, every: null };
}

/** Null: none, or one that this process cannot tell, because it does not know the time zone. */
function nextOf({ definition, memo }: NonNullable<ReturnType<typeof readSchedule>>): number | null {
  try {
    return nextTick(definition.rhythm, memo.seen);
  } catch {
    return null;
  }
}
