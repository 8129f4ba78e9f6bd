/** Why a job is where it is: everything that a store knows about one id. */
import { isPaused } from '../../core/pauses.js';
import type { Why, WorkerCard } from '../../core/store.js';
import { allowancesOf, blockOf } from './limits.js';
import { holderOf, type Step } from './step.js';
import { Place, type Row } from './tables.js';
import { viewOf } from './view.js';

const placeNames = {
  [Place.ready]: 'ready',
  [Place.later]: 'later',
  [Place.behind]: 'behind',
  [Place.claimed]: 'claimed',
} as const satisfies { [P in Place]: Why['place'] };

const nowhere: Omit<Why, 'job' | 'gone'> = {
  place: null,
  turnOf: null,
  claim: null,
  owns: 0,
  paused: false,
  blockedBy: null,
  blockedUntil: null,
  workers: 0,
};

export function why(step: Step, id: string): Why | null {
  const { tables } = step;
  const row = tables.live(id) ?? tables.finished(id);
  if (row) return whyOf(step, row);
  const tombstone = tables.tombstone(id);
  if (!tombstone) return null;
  const { at, why, type, queue, state, reason } = tombstone;
  return { ...nowhere, job: null, gone: { at, why, type, queue, state, reason } };
}

function whyOf(step: Step, row: Row): Why {
  const { tables } = step;
  const { type, queue } = row;
  const holder = row.state === null && row.place === Place.claimed ? holderOf(step, row) : undefined;
  const behind = row.state === null && row.place === Place.behind ? tables.turnOf(row) : undefined;
  return {
    ...nowhere,
    job: viewOf(step, row),
    gone: null,
    place: row.state === null ? placeNames[row.place] : 'finished',
    turnOf: (behind !== undefined && tables.liveAt(behind)?.id) || null,
    claim: holder ? { owner: holder.owner, dueAt: holder.dueAt } : null,
    owns: tables.ownedCount(row.id),
    ...blockIn(step, queue),
    workers: livingCards(step).filter(({ card }) => takes(card, type, queue)).length,
  };
}

/** Why no job of a queue starts now; a pause is told apart, because it may be lifted while a limit stays. */
function blockIn({ tables, now }: Step, queue: string): Pick<Why, 'paused' | 'blockedBy' | 'blockedUntil'> {
  const pauses = tables.paused();
  const paused = isPaused(pauses, queue);
  const allowance = allowancesOf(tables, now, [queue]).get(queue);
  let stalled = 0;
  if (allowance) for (const part of tables.stalledByQueue(now)) if (part.queue === queue) stalled += part.n;
  const { blockedBy, blockedUntil } = blockOf(false, allowance, stalled);
  return { paused, blockedBy: blockedBy === 'paused' ? null : blockedBy, blockedUntil };
}

function takes({ types, queues, concurrency }: WorkerCard['card'], type: string, queue: string): boolean {
  return concurrency > 0 && types.includes(type) && (queues === null || queues.includes(queue));
}

export function livingCards({ tables, now }: Step): readonly WorkerCard[] {
  return tables.cards().filter(({ dueAt }) => dueAt > now);
}
