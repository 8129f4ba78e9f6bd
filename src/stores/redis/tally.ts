/** What a tally answers. */
import type { QueueTally } from '../../core/store.js';
import { isWorthTelling } from '../../core/tally.js';

export type TallyLine = readonly (string | number | null)[];

function tallyOf(line: TallyLine): QueueTally {
  const n = (column: number): number => line[column] as number;
  const orNull = (column: number): number | null => (line[column] === null ? null : Number(line[column]));
  return {
    queue: line[0] as string,
    pending: n(1),
    delayed: n(2),
    processing: n(3),
    stalled: n(4),
    completed: n(5),
    failed: n(6),
    replaced: n(15),
    cancelled: n(7),
    expired: n(8),
    paused: line[9] === 1,
    oldestDueAgeMs: orNull(10),
    blockedBy: (line[11] as QueueTally['blockedBy']) ?? null,
    blockedUntil: orNull(12),
    full: line[13] === 1,
  };
}

/** A queue that was paused or resumed by its name is told, too. */
export function talliesIn(lines: readonly TallyLine[]): readonly QueueTally[] {
  return lines
    .map((line) => ({ counts: tallyOf(line), isNamed: line[14] === 1 }))
    .filter(({ counts, isNamed }) => isNamed || isWorthTelling(counts))
    .map(({ counts }) => counts);
}
