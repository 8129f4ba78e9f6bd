/** Failures that are told as they happen: attempts of this process that the store has settled, and jobs that its calls ended. */
import type { JobError } from './job.js';

export interface FailedAttempt {
  readonly id: string;
  readonly type: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly error: JobError;
}

/** A job that has ended as failed, code STALLED: its claims lapsed too often. */
export interface StalledJob {
  readonly id: string;
  readonly type: string;
  readonly stalls: number;
}

export interface Failures {
  failed(attempt: FailedAttempt): void;
  retried(attempt: FailedAttempt, inMs: number): void;
  stalled(jobs: readonly StalledJob[]): void;
}

export function stalledError(stalls: number): JobError & { readonly code: string } {
  return {
    code: 'STALLED',
    message: `Its worker went silent ${stalls} ${stalls === 1 ? 'time' : 'times'} while it ran`,
  };
}
