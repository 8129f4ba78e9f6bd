/** Types whose jobs wait although no worker takes them, such as one that was renamed or whose worker was never started. */
import { systemQueue } from './names.js';
import type { CleanupPolicy } from './policy.js';
import type { Card, Store } from './store.js';

/** A worker that restarts is back by then. */
const waitedMs = 60_000;
/** More than that are neither counted nor told. */
const dueMax = 10_000;
const typesMax = 100;

export interface Untaken {
  readonly type: string;
  /** Jobs that are due and that nobody takes; at most 10,000 are counted. */
  readonly due: number;
  readonly message: string;
}

/** Queues that are paused are left out, and types that `runUntilIdle` took within the last hour. */
export async function untakenTypes(store: Store, cleanup: CleanupPolicy): Promise<readonly Untaken[]> {
  const lanes = (await store.readLanes()).filter((lane) => lane.queue !== systemQueue && lane.waitedMs > waitedMs);
  if (lanes.length === 0) return [];
  const cards = (await store.readWorkers()).map(({ card }) => card);
  const left = lanes.filter(({ type, queue }) => !cards.some((card) => takes(card, type, queue)));
  if (left.length === 0) return [];
  const { queues } = await store.tally(cleanup);
  const paused = new Set(queues.filter((queue) => queue.paused).map(({ queue }) => queue));
  const queuesOf = new Map<string, string[]>();
  for (const { type, queue } of left)
    if (!paused.has(queue)) queuesOf.set(type, [...(queuesOf.get(type) ?? []), queue]);
  const untaken: Untaken[] = [];
  for (const [type, inQueues] of [...queuesOf].slice(0, typesMax)) {
    const due = await store.countDue({ types: [type], queues: inQueues, limit: dueMax });
    if (due > 0) untaken.push({ type, due, message: messageOf(type, inQueues, due) });
  }
  return untaken;
}

function takes({ types, queues }: Card, type: string, queue: string): boolean {
  return types.includes(type) && (queues === null || queues.includes(queue));
}

function messageOf(type: string, queues: readonly string[], due: number): string {
  const jobs = due === 1 ? '1 job is' : `${due === dueMax ? `${dueMax} or more` : due} jobs are`;
  const where = queues.length === 1 ? `queue "${queues[0]!}"` : `${queues.length} queues`;
  return `Nobody takes type "${type}": ${jobs} due in ${where}, the oldest for more than a minute, and no worker has this type.`;
}
