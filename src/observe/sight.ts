/** One look at the store for all rules: few calls, each bounded. */
import type { Facts, Found, Pass } from '../core/facts.js';
import { nothingFound } from '../core/facts.js';
import { systemQueue } from '../core/names.js';
import type { CleanupPolicy } from '../core/policy.js';
import { type EventPage, noFilter, type QueueTally, type Store, type WorkerCard } from '../core/store.js';
import type { System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import { type Untaken, untakenTypes } from '../core/untaken.js';

/** Most ids that an alert shows. */
export const idsMax = 10;
/** Of the ledger. */
const passesMax = 50;
/** Over so long the rate of failures is taken. */
const endingsMs = 5 * 60_000;
/** Most events that one look reads: a busy store is judged by a part of what happens. */
const eventPages = 4;
const eventsInPage = 500;
/** Most queues whose endings are counted, and most looks that are remembered. */
const queuesMax = 100;
const looksMax = 60;

export interface Endings {
  completed: number;
  failed: number;
  /** Of some that failed. */
  ids: string[];
}

/** How things stand in the store. */
export interface Standing {
  readonly queues: readonly QueueTally[];
  readonly overdue: number;
  readonly workers: readonly WorkerCard[];
  /** The last entries of the ledger, newest first. */
  readonly passes: readonly Pass[];
  readonly leases: Found;
  readonly orphans: Found;
}

export interface Sight extends Standing {
  readonly at: number;
  /** Why the store did not answer: then there is nothing else to see. */
  readonly trouble: string | null;
  readonly brokenPasses: number;
  readonly failingSweeps: readonly string[];
  /** The last entry of the ledger; where there is none, when this queue was opened. */
  readonly quietSince: number;
  readonly cleanupIntervalMs: number;
  /** Types whose jobs wait although nobody takes them. */
  readonly untaken: readonly Untaken[];
  /** Of each queue, in the last minutes, as the event log tells it. */
  readonly endings: ReadonlyMap<string, Endings>;
}

/** What rules ask for once they fire. At most `idsMax` ids. */
export interface Asks {
  /** Pending jobs of a queue that have been due for longer than that. */
  dueFor(queue: string, ms: number): Promise<readonly string[]>;
  /** Pending jobs of a type that are due. */
  dueOf(type: string): Promise<readonly string[]>;
  stalledIn(queue: string): Promise<readonly string[]>;
  /** Finished jobs that the next cleanup removes for their age. */
  overdue(): Promise<readonly string[]>;
}

export interface SightParts {
  readonly store: Store;
  readonly system: System;
  readonly cleanup: CleanupPolicy;
  readonly facts: Facts;
}

export interface Lookout {
  look(): Promise<Sight>;
  /** What there is to see while the store does not answer. */
  blind(trouble: string): Sight;
  readonly asks: Asks;
  /** The end of the event log when it was last read. */
  readonly cursor: string | null;
}

const nothingSeen: Standing = {
  queues: [],
  overdue: 0,
  workers: [],
  passes: [],
  leases: nothingFound,
  orphans: nothingFound,
};

export async function standingOf({ store, cleanup, facts }: SightParts): Promise<Standing> {
  const tally = await store.tally(cleanup);
  const { queues, overdue } = tally;
  const workers = await store.readWorkers();
  const passes = await facts.passes(passesMax);
  const leases = await facts.leasesNeedingAttention(tally);
  const orphans = await facts.orphans();
  return { queues, overdue, workers, passes, leases, orphans };
}

export function lookoutOn(parts: SightParts): Lookout {
  const { store, system, cleanup, facts } = parts;
  const openedAt = system.now();
  const endings = endingsOf(store, system);

  const inProcess = () => ({
    brokenPasses: facts.brokenPasses(),
    failingSweeps: facts.failingSweeps(),
    cleanupIntervalMs: cleanup.cleanupIntervalMs,
  });

  function blind(trouble: string): Sight {
    const at = system.now();
    return { ...inProcess(), ...nothingSeen, untaken: [], at, quietSince: at, endings: new Map(), trouble };
  }
  async function look(): Promise<Sight> {
    const seen = inProcess();
    try {
      const standing = await standingOf(parts);
      const untaken = await untakenTypes(store, cleanup);
      const counted = await endings.count();
      const quietSince = standing.passes[0]?.at.getTime() ?? openedAt;
      return { ...seen, ...standing, untaken, at: system.now(), trouble: null, quietSince, endings: counted };
    } catch (error) {
      return blind(describeThrown(error).message);
    }
  }

  return {
    look,
    blind,
    asks: asksOf(parts),
    get cursor() {
      return endings.cursor;
    },
  };
}

function asksOf({ store, system, cleanup }: SightParts): Asks {
  return {
    async dueFor(queue, ms) {
      const before = system.now() - ms;
      const filter = { ...noFilter, states: ['pending'], queues: [queue], before } as const;
      const { jobs } = await store.find({ filter, cursor: null, limit: 10 * idsMax });
      return jobs.filter(({ scheduledFor }) => scheduledFor < before).map(({ id }) => id);
    },
    async dueOf(type) {
      const filter = { ...noFilter, states: ['pending'], types: [type] } as const;
      const { jobs } = await store.find({ filter, cursor: null, limit: 10 * idsMax });
      return jobs.filter(({ scheduledFor }) => scheduledFor <= system.now()).map(({ id }) => id);
    },
    async stalledIn(queue) {
      const filter = { ...noFilter, states: ['processing'], queues: [queue] } as const;
      const { jobs } = await store.find({ filter, cursor: null, limit: 10 * idsMax });
      return jobs.filter(({ dueAt }) => dueAt !== null && dueAt <= system.now()).map(({ id }) => id);
    },
    async overdue() {
      const { age } = await store.readPlan({ cleanup, cursor: null, limit: idsMax });
      return age.sample;
    },
  };
}

type Counted = Map<string, Endings>;

/** Endings are read from the event log, so that those of every process count, and those whose jobs are gone already. */
function endingsOf(store: Store, system: System) {
  /** Null: not begun; only what happens from the first look on counts. */
  let cursor: string | null = null;
  let looks: { readonly at: number; readonly counted: Counted }[] = [];

  async function readOn(): Promise<Counted> {
    const counted: Counted = new Map();
    if (cursor !== null) {
      for (let page = 0; page < eventPages; page++) {
        const read: EventPage = await store.readEvents({ after: cursor, limit: eventsInPage });
        if (read.reset) break;
        cursor = read.cursor;
        for (const { name, queue, id } of read.events)
          if (queue !== undefined && queue !== systemQueue && (name === 'completed' || name === 'failed'))
            add(
              counted,
              queue,
              name === 'failed' ? { completed: 0, failed: 1, ids: [id!] } : { completed: 1, failed: 0, ids: [] },
            );
        if (read.events.length < eventsInPage) return counted;
      }
    }
    cursor = (await store.readEvents({ after: null, limit: 1 })).cursor;
    return counted;
  }

  return {
    get cursor() {
      return cursor;
    },
    async count(): Promise<Counted> {
      const counted = await readOn();
      const at = system.monotonic();
      if (counted.size > 0) looks.push({ at, counted });
      looks = looks.filter((one) => at - one.at < endingsMs).slice(-looksMax);
      const sum: Counted = new Map();
      for (const one of looks) for (const [queue, endings] of one.counted) add(sum, queue, endings);
      return sum;
    },
  };
}

function add(to: Counted, queue: string, { completed, failed, ids }: Endings): void {
  const sum = to.get(queue) ?? { completed: 0, failed: 0, ids: [] };
  if (!to.has(queue)) {
    if (to.size >= queuesMax) return;
    to.set(queue, sum);
  }
  sum.completed += completed;
  sum.failed += failed;
  sum.ids = [...sum.ids, ...ids].slice(-idsMax);
}
