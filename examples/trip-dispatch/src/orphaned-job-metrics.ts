import type { Alert, Queue } from 'lastout';
import type { TripDispatch } from './app.js';
import { tripQueues } from './trip-request-job.js';

/** Counted where the alerts count, too: in the ledger, for all processes, as far as it goes back (its last 1,000 passes). */
export interface OrphanedJobMetrics {
  /** Jobs that sweeps removed because their trip was missing or not PENDING any more, and such trips whose jobs still wait. */
  readonly totalOrphanedJobs: number;
  /** Sweeps of this process in the last hour: 30 when all is well and there is one process. */
  readonly cleanupFrequency: number;
  /** Milliseconds from created to ended, of jobs that ended in this process. */
  readonly avgJobLifetime: number;
  /** Sweeps, look-ups and removals that did not work. */
  readonly failedCleanups: number;
}

const names = ['totalOrphanedJobs', 'cleanupFrequency', 'avgJobLifetime', 'failedCleanups'] as const;

export async function orphanedJobMetrics({ queue, parts }: TripDispatch): Promise<OrphanedJobMetrics> {
  const lines = (await queue.metrics()).split('\n');
  const read = (name: string): number =>
    Number(lines.find((line) => line.startsWith(`${name} `))?.slice(name.length) ?? 0);
  const { orphans, failures } = await sumsOfLedger(queue);
  return {
    totalOrphanedJobs: orphans + read('lastout_orphans'),
    cleanupFrequency: read('cleanupFrequency'),
    avgJobLifetime: read('avgJobLifetime'),
    failedCleanups: failures + parts.failedCleanups.total,
  };
}

async function sumsOfLedger(queue: Queue): Promise<{ orphans: number; failures: number }> {
  const sums = { orphans: 0, failures: 0 };
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<Queue['ledger']>> = await queue.ledger({ limit: 200, ...(cursor && { cursor }) });
    for (const { removedBy, failures } of page.items) {
      sums.orphans += removedBy.orphan ?? 0;
      sums.failures += failures;
    }
    cursor = page.next;
  } while (cursor !== null);
  return sums;
}

/** Those of the library, and one for what only this process knows: the same failures that `failedCleanups` counts. */
export async function orphanedJobAlerts({ queue, parts, cleanup }: TripDispatch): Promise<readonly Alert[]> {
  const alerts = await queue.alerts();
  const { failedCleanups } = parts;
  if (failedCleanups.open)
    for (const { startedAt, result } of await cleanup.lastCleanups())
      if (startedAt && result?.failed === 0) failedCleanups.wentWell(startedAt);
  if (!failedCleanups.open) return alerts;
  const { count, last } = failedCleanups.open;
  return [
    ...alerts,
    {
      ...{ id: 'cleanupFailing:trips', rule: 'cleanupFailing', severity: 'critical', state: 'firing' },
      ...{ since: last, evidence: [] },
      message: `Cleanup service failures: ${count} since the last cleanup that went well.`,
    },
  ];
}

/** Both queues, the metrics and the alerts, as text. */
export async function dashboard(dispatch: TripDispatch): Promise<string> {
  const metrics = await orphanedJobMetrics(dispatch);
  const alerts = (await orphanedJobAlerts(dispatch)).filter(({ state }) => state !== 'pending');
  return [
    ...(await queueTable(dispatch.queue)),
    ...names.map((name) => `${name.padEnd(18)}${Math.round(metrics[name])}`),
    ...(alerts.length === 0 ? ['no alerts'] : alerts.map(({ state, message }) => `${state.toUpperCase()} ${message}`)),
  ].join('\n');
}

async function queueTable(queue: Queue): Promise<readonly string[]> {
  const { queues } = await queue.stats();
  const columns = ['waiting', 'delayed', 'active', 'completed', 'failed', 'expired', 'cancelled'];
  const row = (name: string, cells: readonly (string | number)[]): string =>
    name.padEnd(14) + cells.map((cell) => String(cell).padStart(10)).join('');
  return [
    row('', columns),
    ...tripQueues.map((name) => {
      const {
        pending = 0,
        delayed = 0,
        processing = 0,
        completed = 0,
        failed = 0,
        expired = 0,
        cancelled = 0,
      } = queues[name] ?? {};
      return row(name, [pending - delayed, delayed, processing, completed, failed, expired, cancelled]);
    }),
  ];
}
