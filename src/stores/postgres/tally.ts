/** The facts of tally_v1 put together. */
import { isAllPaused, isPaused, namesIn } from '../../core/pauses.js';
import type { QueueTally, Tally } from '../../core/store.js';
import { type Counts, emptyCounts, isWorthTelling } from '../../core/tally.js';
import type { Rows } from './run.js';

type Numbers = readonly (number | null)[];

/** How many more jobs a queue may start by what runs (null: any number), and when its rate lets one start again. */
type Allowance = readonly [slots: number | null, opensAt: number | null];

export function tallyIn(rows: Rows): Tally {
  const of = (fact: string): [string, Numbers][] =>
    rows.filter((row) => row[0] === fact).map((row) => [row[1] as string, row.slice(2) as Numbers]);
  const numberIn = (fact: string): number => of(fact)[0]?.[1][0] ?? 0;
  const paused = new Set(of('paused').map(([queue]) => queue));
  const queues = new Map<string, Counts>();
  const countsOf = (queue: string): Counts => {
    let counts = queues.get(queue);
    if (!counts) {
      queues.set(queue, (counts = emptyCounts(queue, isPaused(paused, queue))));
    }
    return counts;
  };
  const named = new Set(namesIn(paused));
  for (const name of named) countsOf(name);
  for (const [queue, [pending, delayed, processing, completed, failed, cancelled, expired]] of of('counts'))
    Object.assign(countsOf(queue), { pending, delayed, processing, completed, failed, cancelled, expired });
  for (const [queue, [n]] of of('replaced')) countsOf(queue).replaced = n!;
  for (const [queue, [expired, later]] of of('expired')) {
    const counts = countsOf(queue);
    counts.pending -= expired!;
    counts.expired += expired!;
    counts.delayed -= later!;
  }
  for (const [queue, [due]] of of('due')) countsOf(queue).delayed -= due!;
  for (const [queue, [n]] of of('stalled')) countsOf(queue).stalled = n!;
  const at = numberIn('at');
  for (const [queue, [dueAt]] of of('oldest')) countsOf(queue).oldestDueAgeMs = Math.max(0, at - dueAt!);
  const most = new Map(of('limits').map(([queue, [n]]) => [queue, n!]));
  const allowances = new Map(of('slots').map(([queue, numbers]) => [queue, numbers as unknown as Allowance]));
  for (const counts of queues.values()) {
    Object.assign(counts, blockOf(counts, allowances.get(counts.queue)));
    counts.full = counts.pending >= (most.get(counts.queue) ?? Number.POSITIVE_INFINITY);
  }
  return {
    queues: [...queues.values()].filter((counts) => named.has(counts.queue) || isWorthTelling(counts)),
    paused: isAllPaused(paused),
    overdue: numberIn('overdue'),
  };
}

/** A lapsed claim holds no slot any more: the next claim brings it back first. */
function blockOf(
  { paused, stalled }: Counts,
  [slots, opensAt]: Allowance = [null, null],
): Pick<QueueTally, 'blockedBy' | 'blockedUntil'> {
  if (paused) return { blockedBy: 'paused', blockedUntil: null };
  if (slots !== null && slots + stalled <= 0) return { blockedBy: 'concurrency', blockedUntil: null };
  return { blockedBy: opensAt === null ? null : 'rate', blockedUntil: opensAt };
}
