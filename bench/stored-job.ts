/** A plain job as a store takes it. */
import type { NewJob } from '../src/core/store.js';

export function plainJob(id: string): NewJob {
  return {
    id,
    idGiven: false,
    print: null,
    type: 'mail',
    queue: 'default',
    priority: 0,
    when: { inMs: 0 },
    ttlMs: null,
    maxAttempts: 3,
    subject: null,
    key: null,
    exclusiveKey: null,
    deduplication: 'none',
    source: null,
    metadata: null,
    policy: '{"backoff":null,"timeoutMs":null,"keep":{}}',
    input: '{"to":"ann@example.org","template":"welcome","number":1234567890}',
    ownedBy: null,
    under: null,
  };
}
