/** Failures that are told as they happen: attempts of this process that the store has settled. */
import type { JobError } from './job.js';

export interface FailedAttempt {
  readonly id: string;
  readonly type: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly error: JobError;
}

export interface Failures {
  failed(attempt: FailedAttempt): void;
  retried(attempt: FailedAttempt, inMs: number): void;
}
