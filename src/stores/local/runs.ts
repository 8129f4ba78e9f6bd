/** Events that differ only in their job are kept as one and a list of ids, a run: a step has up to thousands. */
import type { StepEvent } from './step.js';
import type { Row } from './tables.js';

/** Null: an event about no job. */
export type Run = readonly [event: Omit<StepEvent, 'id'>, ids: string[] | null];

/** Adds an event about a job to the last run, or begins one. */
export function tellIn(
  runs: Run[],
  name: StepEvent['name'],
  row: Row,
  attempt: number | undefined,
  error: StepEvent['error'] | undefined,
): void {
  const last = runs[runs.length - 1];
  if (last?.[1] && error === undefined && isLike(last[0], name, row, attempt)) {
    last[1].push(row.id);
    return;
  }
  runs.push([eventOf(name, row, { ...(attempt !== undefined && { attempt }), ...(error && { error }) }), [row.id]]);
}

export function eventOf(
  name: StepEvent['name'],
  row: Row,
  more: Pick<StepEvent, 'attempt' | 'error' | 'progress'>,
): Run[0] {
  return { name, type: row.type, queue: row.queue, ...(row.subject !== null && { subject: row.subject }), ...more };
}

function isLike(event: Run[0], name: StepEvent['name'], row: Row, attempt: number | undefined): boolean {
  return (
    event.name === name &&
    event.type === row.type &&
    event.queue === row.queue &&
    (event.subject ?? null) === row.subject &&
    event.attempt === attempt &&
    event.error === undefined
  );
}

export function eventsIn(runs: readonly Run[]): StepEvent[] {
  return runs.flatMap(([event, ids]) => (ids ? ids.map((id) => ({ ...event, id })) : [event]));
}
