// The crowd that a claim must not look at: jobs that wait for later or for a key, and jobs long finished.
import { Place, type Row } from '../../src/stores/local/tables.js';

export const crowd = { delayed: 1_000_000, behind: 100_000, subjects: 100_000, finished: 1_000_000 } as const;
/** From the first to the last: whatever a claim takes, some of the crowd would come before it. */
export const priorities = { first: -1_000, count: 2_001 } as const;

export const now = Date.parse('2030-01-01T00:00:00Z');
export const hour = 3_600_000;
export const key = 'trip-42';

/** A plain job, as `insert` makes it. */
export function plainRow(seq: number): Row {
  return {
    seq,
    id: `crowd-${seq}`,
    type: 'mail',
    queue: 'default',
    createdAt: now,
    maxAttempts: 3,
    ttlMs: null,
    subject: null,
    key: null,
    slot: null,
    exclusiveKey: null,
    source: null,
    metadata: null,
    policy: '{"backoff":null,"timeoutMs":null,"keep":{}}',
    input: '{"to":"ann"}',
    print: null,
    retryOf: null,
    ownedBy: null,
    place: Place.claimed,
    priority: 0,
    dueAt: now,
    expiresAt: null,
    startedAt: null,
    attempts: 0,
    stalls: 0,
    wary: false,
    epoch: 0,
    left: null,
    cancelAt: null,
    cancelReason: null,
    againAt: null,
    progress: null,
    memo: null,
    error: null,
    heldUntil: null,
    heldReason: null,
    state: null,
    completedAt: null,
    result: null,
    keepMs: undefined,
    keepCount: null,
  };
}
