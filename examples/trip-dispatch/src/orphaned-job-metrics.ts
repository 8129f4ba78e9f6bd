import type { Queue } from 'lastout';
import type { TripDispatch } from './app.js';
import { tripQueues } from './trip-request-job.js';

/** As this process has counted them since it started. */
export interface OrphanedJobMetrics {
  /** Jobs whose trip was missing or not PENDING any more. */
  readonly totalOrphanedJobs: number;
  /** Sweeps in the last hour: 30 when all is well. */
  readonly cleanupFrequency: number;
  /** Milliseconds from created to ended. */
  readonly avgJobLifetime: number;
  /** Sweeps, look-ups and removals that did not work. */
  readonly failedCleanups: number;
}

const names = ['totalOrphanedJobs', 'cleanupFrequency', 'avgJobLifetime', 'failedCleanups'] as const;

export async function orphanedJobMetrics({ queue, jobs, cleanup }: TripDispatch): Promise<OrphanedJobMetrics> {
  const lines = (await queue.metrics()).split('\n');
  const read = (name: string): number =>
    Number(lines.find((line) => line.startsWith(`${name} `))?.slice(name.length) ?? 0);
  const metrics = Object.fromEntries(names.map((name) => [name, read(name)])) as unknown as OrphanedJobMetrics;
  return { ...metrics, failedCleanups: metrics.failedCleanups + jobs.failures + cleanup.failures };
}

/** Both queues, the metrics and the alerts, as text. */
export async function dashboard(dispatch: TripDispatch): Promise<string> {
  const { queue } = dispatch;
  const metrics = await orphanedJobMetrics(dispatch);
  const alerts = (await queue.alerts()).filter(({ state }) => state !== 'pending');
  return [
    ...(await queueTable(queue)),
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
