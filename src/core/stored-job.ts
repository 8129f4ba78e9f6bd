/** What a store says about one job. */
import type { State } from './job.js';

/** A job as a store hands it out: instants in milliseconds, JSON as text. */
export interface StoredJob {
  readonly seq: number;
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly state: State;
  readonly priority: number;
  readonly input: string;
  readonly result: string | null;
  readonly error: string | null;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly stalls: number;
  readonly subject: string | null;
  readonly key: string | null;
  readonly exclusiveKey: string | null;
  readonly source: string | null;
  readonly metadata: string | null;
  readonly policy: string;
  readonly progress: string | null;
  /** What its last run left for the next one: JSON, or null. */
  readonly memo: string | null;
  readonly retryOf: string | null;
  /** The id of the job that owns it. */
  readonly ownedBy: string | null;
  readonly cancelAt: number | null;
  readonly cancelReason: string | null;
  /** Not removed before this instant; null: not held. `farAway` is for ever. */
  readonly heldUntil: number | null;
  readonly heldReason: string | null;
  readonly createdAt: number;
  readonly scheduledFor: number;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
  readonly expiresAt: number | null;
  /** Due to run or due back; of a finished job null (its retention is the cleanup policy's business). */
  readonly dueAt: number | null;
  readonly epoch: number;
}
