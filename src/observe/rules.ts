/**
 * The rules of the alerts, as a table. A rule reads one sight of the store and says how bad things are, of each queue or
 * of the whole; when that is an alert, and when it is none any more, is decided in alerts.ts from the numbers here.
 */
import { systemQueue } from '../core/names.js';
import type { QueueTally } from '../core/store.js';
import { type Asks, idsMax, type Sight } from './sight.js';

export interface Finding {
  /** The queue that it is about; null: the whole store. */
  readonly queue: string | null;
  /** The type, where it is about one. */
  readonly type?: string;
  readonly value: number;
  readonly message: string;
  readonly evidence: readonly string[];
}

export interface Threshold {
  /** An alert: the value is above this … */
  readonly above: number;
  /** … for so long. */
  readonly pendingMs: number;
  /** None any more: the value is at most this. */
  readonly clear: number;
}

export interface Rule extends Threshold {
  readonly severity: 'warning' | 'critical';
  /** What the value counts, for the options and their refusals. */
  readonly unit: string;
  /** It has something to say also where the store does not answer. The others then stay as they are. */
  readonly blind?: true;
  look(sight: Sight, above: number): readonly Finding[];
  /** Ids to show once it fires: asking for them costs something. */
  sample?(asks: Asks, finding: Finding, above: number): Promise<readonly string[]>;
}

const minute = 60_000;

export const rules = {
  oldJobs: {
    severity: 'warning',
    unit: 'milliseconds',
    above: 10 * minute,
    clear: 5 * minute,
    pendingMs: 0,
    look: ({ queues, workers }, above) =>
      ofUsers(queues, (queue) => ({
        value: queue.oldestDueAgeMs ?? 0,
        message:
          `Jobs older than ${inWords(above)}: the oldest due job of queue "${queue.queue}" has waited ` +
          `${inWords(queue.oldestDueAgeMs ?? 0)}; ${whyOld(queue, isServed(queue, workers))}.`,
      })),
    sample: (asks, { queue }, above) => asks.dueFor(queue!, above),
  },
  manyOrphans: {
    severity: 'warning',
    unit: 'jobs',
    above: 20,
    clear: 5,
    pendingMs: 0,
    look: ({ at, passes, orphans }) => {
      const recent = passes.filter((pass) => at - pass.at.getTime() < 10 * minute);
      const ended = recent.reduce((sum, { removedBy }) => sum + (removedBy.orphan ?? 0), 0);
      const message =
        `High orphaned job count: jobs of ${counted(orphans.count, 'subject', 'subjects')} wait that are gone or over, ` +
        `and sweeps cancelled ${counted(ended, 'such job', 'such jobs')} in the last 10 minutes.`;
      return ofAll(orphans.count + ended, message, orphans.sample);
    },
  },
  cleanupFailing: {
    severity: 'critical',
    unit: 'failures',
    above: 0,
    clear: 0,
    pendingMs: 0,
    look: ({ passes, brokenPasses, failingSweeps }) => {
      const failures = brokenPasses + Math.max(passes[0]?.failures ?? 0, failingSweeps.length);
      const message = `Cleanup service failures: ${failures} since the last pass that went well.`;
      return ofAll(failures, message, failingSweeps);
    },
  },
  cleanupSilent: {
    severity: 'critical',
    unit: 'cleanup intervals',
    above: 3,
    clear: 1,
    pendingMs: 0,
    look: ({ at, quietSince, cleanupIntervalMs }) => {
      const forMs = at - quietSince;
      const message = `No process has cleaned up for ${inWords(forMs)}; once every ${inWords(cleanupIntervalMs)} is usual.`;
      return ofAll(forMs / cleanupIntervalMs, message);
    },
  },
  leasesNeedAttention: {
    severity: 'critical',
    unit: 'leases',
    above: 0,
    clear: 0,
    pendingMs: 0,
    look: ({ leases }) =>
      ofAll(
        leases.count,
        `${counted(leases.count, 'lease needs', 'leases need')} attention: what is leased could not be destroyed. See leases.find, retry and force.`,
        leases.sample,
      ),
  },
  noWorkers: {
    severity: 'critical',
    unit: 'due jobs',
    above: 0,
    clear: 0,
    pendingMs: minute,
    look: ({ queues, workers }) =>
      ofUsers(queues, (queue) => {
        const due = queue.pending - queue.delayed;
        const waiting = `${counted(due, 'job', 'jobs')} of queue "${queue.queue}" ${due === 1 ? 'is' : 'are'} due`;
        return {
          value: isServed(queue, workers) || queue.paused ? 0 : due,
          message: `${waiting}, and no living worker takes ${due === 1 ? 'it' : 'them'}.`,
        };
      }),
  },
  nobodyTakes: {
    severity: 'warning',
    unit: 'due jobs',
    above: 0,
    clear: 0,
    pendingMs: 0,
    look: ({ untaken }) =>
      untaken.map(({ type, due, message }) => ({ queue: null, type, value: due, message, evidence: [] })),
    sample: (asks, { type }) => asks.dueOf(type!),
  },
  stalledClaims: {
    severity: 'critical',
    unit: 'jobs',
    above: 0,
    clear: 0,
    pendingMs: minute,
    look: ({ queues }) =>
      queues.map((queue) => ({
        queue: queue.queue,
        value: queue.stalled,
        message: `Claims that lapsed hold ${counted(queue.stalled, 'job', 'jobs')} of queue "${queue.queue}", and nobody has given back what they hold.`,
        evidence: [],
      })),
    sample: (asks, { queue }) => asks.stalledIn(queue!),
  },
  failureRate: {
    severity: 'warning',
    unit: 'of all endings, from 0 to 1',
    above: 0.5,
    clear: 0.25,
    pendingMs: minute,
    look: ({ endings }) =>
      [...endings].map(([queue, { completed, failed, ids }]) => {
        const all = completed + failed;
        const message = `${failed} of the last ${counted(all, 'job', 'jobs')} of queue "${queue}" failed.`;
        return { queue, value: all < endingsMin ? 0 : failed / all, message, evidence: ids };
      }),
  },
  backpressure: {
    severity: 'warning',
    unit: 'pending jobs',
    above: 0,
    clear: 0,
    pendingMs: minute,
    look: ({ queues }) =>
      ofUsers(queues, ({ queue, full, pending }) => ({
        value: full ? pending : 0,
        message: `Queue "${queue}" is full: it refuses jobs, ${counted(pending, 'is', 'are')} pending.`,
      })),
  },
  retentionLag: {
    severity: 'warning',
    unit: 'jobs',
    above: 0,
    clear: 0,
    pendingMs: minute,
    look: ({ overdue }) =>
      ofAll(
        overdue,
        `${counted(overdue, 'finished job is past its', 'finished jobs are past their')} retention by more than one cleanup interval.`,
      ),
    sample: (asks) => asks.overdue(),
  },
  storeUnreachable: {
    severity: 'critical',
    unit: '1: no answer',
    above: 0,
    clear: 0,
    pendingMs: minute / 2,
    blind: true,
    look: ({ trouble }) => ofAll(trouble === null ? 0 : 1, `The store does not answer: ${trouble}`),
  },
} satisfies { readonly [name: string]: Rule };

export type RuleName = keyof typeof rules;
export const ruleNames = Object.keys(rules) as readonly RuleName[];

/** Fewer endings say nothing about a rate. */
const endingsMin = 10;

function ofUsers(
  queues: readonly QueueTally[],
  look: (queue: QueueTally) => { value: number; message: string },
): readonly Finding[] {
  return queues
    .filter(({ queue }) => queue !== systemQueue)
    .map((queue) => ({ queue: queue.queue, evidence: [], ...look(queue) }));
}

function ofAll(value: number, message: string, evidence: readonly string[] = []): readonly Finding[] {
  return [{ queue: null, value, message, evidence: evidence.slice(0, idsMax) }];
}

/** Nothing of it runs: it stands still. Something does: it is only slow. */
function whyOld({ paused, blockedBy, processing, stalled }: QueueTally, served: boolean): string {
  if (paused) return 'stalled: the queue is paused';
  if (processing > stalled)
    return `backlog: ${counted(processing - stalled, 'runs', 'run')}, and more come than get done`;
  if (blockedBy !== null) return `stalled: its ${blockedBy} limit lets none start`;
  return served ? 'stalled: none of its jobs runs' : 'stalled: no living worker takes its jobs';
}

function isServed({ queue }: QueueTally, workers: Sight['workers']): boolean {
  return workers.some(({ card }) => card.queues === null || card.queues.includes(queue));
}

function inWords(ms: number): string {
  if (ms < 1_000) return `${ms} ms`;
  const [unit, unitMs] = ms < minute ? ['second', 1_000] : ['minute', minute];
  const n = Math.floor((ms / unitMs) * 10) / 10;
  return `${n} ${unit}${n === 1 ? '' : 's'}`;
}

function counted(n: number, one: string, many: string): string {
  return `${n} ${n === 1 ? one : many}`;
}
