/** Runs of events that differ only in their job, kept as one event and a list of ids: a step has up to thousands. */
import type { StepEvent } from './step.js';

/** Null: an event about no job. */
export type Run = readonly [event: Omit<StepEvent, 'id'>, ids: string[] | null];

export function runsOf(events: readonly StepEvent[]): Run[] {
  const runs: Run[] = [];
  let last: StepEvent | undefined;
  for (const event of events) {
    const ids = runs[runs.length - 1]?.[1];
    if (event.id !== undefined && ids && last && isLike(event, last)) ids.push(event.id);
    else {
      const { id, ...rest } = event;
      runs.push([rest, id === undefined ? null : [id]]);
    }
    last = event;
  }
  return runs;
}

export function eventsIn(runs: readonly Run[]): StepEvent[] {
  return runs.flatMap(([event, ids]) => (ids ? ids.map((id) => ({ ...event, id })) : [event]));
}

function isLike(a: StepEvent, b: StepEvent): boolean {
  return (
    a.name === b.name &&
    a.type === b.type &&
    a.queue === b.queue &&
    a.subject === b.subject &&
    a.attempt === b.attempt &&
    a.error === undefined &&
    b.error === undefined
  );
}
