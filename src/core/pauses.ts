/** Which queues are paused, as every store keeps it: a set of words. */
import { systemQueue } from './names.js';

/** The name of a queue, `*` for every queue but the library's own, and `+name` for a queue that goes on while all others are paused. */
export type Pauses = ReadonlySet<string>;

const all = '*';
const awake = (queue: string): string => `+${queue}`;

/** The words that come and go when a queue is paused or resumed; null: every queue. */
export function changeOf(pauses: Pauses, queue: string | null, paused: boolean): { add: string[]; drop: string[] } {
  if (queue === null) {
    const drop = [...pauses].filter((word) => !paused || word.startsWith('+'));
    return { add: paused ? [all] : [], drop };
  }
  if (paused) return { add: [queue], drop: [awake(queue)] };
  return { add: pauses.has(all) && queue !== systemQueue ? [awake(queue)] : [], drop: [queue] };
}

export function isPaused(pauses: Pauses, queue: string): boolean {
  return pauses.has(queue) || (pauses.has(all) && queue !== systemQueue && !pauses.has(awake(queue)));
}

/** Every queue is paused, also one that has no jobs yet. */
export function isAllPaused(pauses: Pauses): boolean {
  return pauses.has(all) && namesAwake(pauses).length === 0;
}

/** The queues that were paused or resumed by their names. */
export function namesIn(pauses: Pauses): string[] {
  return [...pauses].filter((word) => word !== all).map((word) => word.replace(/^\+/, ''));
}

/** Of the queues that a claim asks for (null: all), those that a pause of every queue leaves. */
export function queuesAwake(queues: readonly string[] | null, pauses: Pauses): readonly string[] | null {
  if (!pauses.has(all)) return queues;
  const open = [systemQueue, ...namesAwake(pauses)];
  return queues === null ? open : open.filter((queue) => queues.includes(queue));
}

function namesAwake(pauses: Pauses): string[] {
  return [...pauses].filter((word) => word.startsWith('+')).map((word) => word.slice(1));
}
