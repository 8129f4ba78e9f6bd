/**
 * A pending job that a newer one has replaced: its state is `failed`, and yet it is no failure. Where a store has no mark for it,
 * it is known by the text of its error, which no handler can leave: what a handler throws is stored with its message first.
 */
import type { JobError } from './job.js';

export const replacedError = { code: 'REPLACED', message: 'Replaced by newer job' } as const satisfies JobError;

/** As it is stored. */
export const replacedText = JSON.stringify(replacedError);
