/**
 * Where a pending job stands: ready, later or behind, and how the turn of an exclusive key passes on.
 * Invariant: a key with a due job has exactly one row with the turn, and that row is ready or claimed.
 */
import { deltaOf, type Step } from './step.js';
import { Place, type Row } from './tables.js';

/** A row that is nowhere (new, or just taken) comes to stand where its dueAt and its key say. */
export function stand(step: Step, row: Row): void {
  const { tables } = step;
  if (row.dueAt > step.now) {
    tables.put(row, Place.later);
    deltaOf(step, row.queue).delayed += 1;
    if (step.earliestLaterAt === null || row.dueAt < step.earliestLaterAt) step.earliestLaterAt = row.dueAt;
  } else if (row.exclusiveKey === null) {
    becomeReady(step, row);
  } else if (tables.turnOf(row) === undefined) {
    tables.setTurn(row);
    becomeReady(step, row);
  } else {
    tables.put(row, Place.behind);
  }
}

/** A pending row leaves its place for good or for another one; a turn it had passes on. */
export function leavePlace(step: Step, row: Row): void {
  const { place } = row;
  step.tables.take(row);
  if (place === Place.later) deltaOf(step, row.queue).delayed -= 1;
  if (place === Place.ready && row.exclusiveKey !== null) passTurn(step, row);
}

/** A claimed row is pending again. Its turn passes on; if it is due, it stands in line for it like the others. */
export function standAgain(step: Step, row: Row): void {
  if (row.exclusiveKey === null || row.dueAt > step.now) {
    stand(step, row);
    if (row.exclusiveKey !== null) passTurn(step, row);
    return;
  }
  step.tables.put(row, Place.behind);
  passTurn(step, row);
}

/** The turn goes to the first behind in the same step, so nobody waits for a turn that no one has. */
export function passTurn(step: Step, row: Row): void {
  const { tables } = step;
  tables.clearTurn(row);
  const next = tables.firstBehind(row);
  if (!next) return;
  tables.take(next);
  tables.setTurn(next);
  becomeReady(step, next);
}

/** What became due moves from later to ready or behind; each job is promoted once. */
export function promote(step: Step, limit: number): number {
  const due = step.tables.due(step.now, limit);
  for (const row of due) {
    step.tables.take(row);
    deltaOf(step, row.queue).delayed -= 1;
    stand(step, row);
  }
  return due.length;
}

function becomeReady(step: Step, row: Row): void {
  step.tables.put(row, Place.ready);
  step.readyTypes.add(row.type);
}
