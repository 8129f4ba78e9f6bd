/** A schedule as a job: what its input and its memo hold, and how two definitions are compared. */
import { plainJob } from '../core/columns.js';
import { canonicalText } from '../core/json.js';
import type { NewJob, StoredJob } from '../core/store.js';
import { systemJob } from '../core/system-job.js';
import type { Missed, Rhythm } from './ticks.js';

export const scheduleType = 'lastout.schedule';

/** A job of each tick, made and checked when the schedule was set: whoever fires it need not know the type. */
export type Template = Omit<NewJob, 'id' | 'idGiven'>;

const { idGiven: _, ...plainTemplate } = plainJob;

export interface Definition {
  readonly name: string;
  readonly rhythm: Rhythm;
  readonly missed: Missed;
  readonly job: Template;
}

/** What a changed schedule takes over from the one before it. */
export interface Carried {
  /** Ticks up to here are dealt with; null: up to its creation. */
  readonly since: number | null;
  readonly last: number | null;
}

/** What a schedule remembers from one firing to the next. */
export interface Memo {
  /** Every tick up to here is dealt with, fired or not. */
  readonly seen: number;
  /** The last tick that gave a job. */
  readonly last: number | null;
}

interface Input extends Definition {
  readonly carried: Carried;
}

export function jobOf(id: string, definition: Definition, carried: Carried, how: 'skip' | 'replace'): NewJob {
  const input: Input = { ...definition, carried };
  return systemJob({
    id,
    type: scheduleType,
    when: { inMs: 0 },
    key: definition.name,
    deduplication: how,
    input: JSON.stringify(input),
  });
}

/** Undefined: not readable here, because it was written by a newer version or through a codec. */
export function readSchedule({
  input,
  memo,
  createdAt,
}: StoredJob): { definition: Definition; memo: Memo } | undefined {
  try {
    const { carried, ...given } = JSON.parse(input) as Input;
    if (typeof given.job.input !== 'string') return undefined;
    // An earlier version knew fewer fields of a job.
    const definition = { ...given, job: { ...plainTemplate, ...given.job } };
    const kept = memo === null ? null : (JSON.parse(memo) as Memo);
    return { definition, memo: kept ?? { seen: carried.since ?? createdAt, last: carried.last } };
  } catch {
    return undefined;
  }
}

export function memoOf(memo: Memo): string {
  return JSON.stringify(memo);
}

export function sameDefinition(a: Definition, b: Definition): boolean {
  return comparable(a) === comparable(b);
}

/** The order of keys does not count, nor inside the texts of the job. */
function comparable({ job, ...definition }: Definition): string {
  const { input, metadata, ...template } = job;
  const texts = [input, metadata ?? '{}', JSON.stringify({ ...definition, template })];
  return texts.map(canonicalText).join('\n');
}

export function sameRhythm(a: Definition, b: Definition): boolean {
  return canonicalText(JSON.stringify(a.rhythm)) === canonicalText(JSON.stringify(b.rhythm));
}
