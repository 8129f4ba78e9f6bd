/** Progress as a handler reports it: a percentage, perhaps with words. */
import { show } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import type { Progress } from '../core/job.js';
import { reading } from '../core/reading.js';

const textMax = 1_000;

export function readProgress(value: unknown): Progress {
  const progress = typeof value === 'number' ? { percent: value } : value;
  if (progress === null || typeof progress !== 'object') throw invalid(`it is ${show(value)}`);
  const { percent, step, message } = reading('Progress', 'INVALID_PROGRESS', () => partsOf(progress));
  if (typeof percent !== 'number' || !(percent >= 0 && percent <= 100)) throw invalid(`percent is ${show(percent)}`);
  return { percent, ...text('step', step), ...text('message', message) };
}

function partsOf({ percent, step, message }: { percent?: unknown; step?: unknown; message?: unknown }) {
  return { percent, step, message };
}

function text<K extends string>(name: K, value: unknown): { [P in K]?: string } {
  if (value === undefined) return {};
  if (typeof value !== 'string' || value.length > textMax || value.includes('\0') || !value.isWellFormed())
    throw invalid(`${name} is ${show(value)}`);
  return { [name]: value } as { [P in K]?: string };
}

function invalid(fault: string): LastoutError {
  return new LastoutError(
    'INVALID_PROGRESS',
    `Progress is a number from 0 to 100, or { percent, step, message } with texts of at most ${textMax} characters; ${fault}.`,
  );
}
