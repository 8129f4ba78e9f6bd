/** One error class with a closed union of codes: callers switch on `code`, messages may improve. */
import type { Json } from './json.js';

export type Code =
  | 'INVALID_URL'
  | 'DRIVER_MISSING'
  | 'INVALID_INPUT'
  | 'PAYLOAD_TOO_DEEP'
  | 'FORBIDDEN_KEY'
  | 'UNSTORABLE_TEXT'
  | 'UNSAFE_INTEGER'
  | 'UNSERIALIZABLE'
  | 'PAYLOAD_TOO_LARGE'
  | 'TYPE_REQUIRED'
  | 'UNKNOWN_TYPE'
  | 'INVALID_NAME'
  | 'INVALID_KEY'
  | 'INVALID_DELAY'
  | 'INVALID_DATE'
  | 'INVALID_DURATION'
  | 'INVALID_PRIORITY'
  | 'INVALID_ATTEMPTS'
  | 'INVALID_TTL'
  | 'TTL_BEFORE_DUE'
  | 'INVALID_LEASE'
  | 'INVALID_RETENTION'
  | 'INVALID_DEDUPLICATION'
  | 'UNKNOWN_OPTION'
  | 'BATCH_SIZE'
  | 'IDEMPOTENCY_CONFLICT'
  | 'INVALID_TRANSACTION'
  | 'QUEUE_FULL'
  | 'SUBJECT_ENDED'
  | 'SUBJECT_REQUIRED'
  | 'FILTER_REQUIRED'
  | 'INVALID_FILTER'
  | 'INVALID_CURSOR'
  | 'INVALID_LIMIT'
  | 'INVALID_ID'
  | 'INVALID_SORT'
  | 'INVALID_CRON'
  | 'INVALID_TIMEZONE'
  | 'INVALID_PROGRESS'
  | 'RESULT_INVALID'
  | 'JOB_NOT_FOUND'
  | 'JOB_REMOVED'
  | 'STALE_CLAIM'
  | 'ALREADY_SETTLED'
  | 'TIMEOUT'
  | 'WAIT_TIMEOUT'
  | 'CANCELLED'
  | 'STALLED'
  | 'REPLACED'
  | 'SUPERSEDED'
  | 'EXPIRED'
  | 'ORPHANED'
  | 'BACKPRESSURE'
  | 'SLOTS_CLOSED'
  | 'CLOSED'
  | 'LEASE_LOST'
  | 'LEASE_UNCERTAIN'
  | 'INVALID_ARTIFACT_NAME'
  | 'ARTIFACT_QUOTA'
  | 'ARTIFACTS_IN_USE'
  | 'ARTIFACTS_MISSING'
  | 'DIGEST_MISMATCH'
  | 'ARTIFACT_CORRUPT'
  | 'STORE_UNAVAILABLE'
  | 'STORE_FULL'
  | 'STORE_READONLY'
  | 'STORE_NEWER'
  | 'STORE_DENIED'
  | 'RESULT_UNKNOWN';

export class LastoutError extends Error {
  readonly code: Code;
  readonly details?: { readonly [key: string]: Json };

  constructor(code: Code, message: string, details?: { readonly [key: string]: Json }, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'LastoutError';
    this.code = code;
    if (details) this.details = details;
  }
}

/** Thrown by `createSlots` when both the slots and the waiting line are full. */
export class BackpressureError extends LastoutError {
  declare readonly code: 'BACKPRESSURE';

  constructor() {
    super('BACKPRESSURE', 'Queue is full');
    this.name = 'BackpressureError';
  }
}
