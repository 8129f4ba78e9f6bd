/** A plain job as stores are given it. */
import type { NewJob } from '../../src/core/store.js';
import { createSystem } from '../../src/system.js';

const system = createSystem();

export function newJob(fields: Partial<NewJob> = {}): NewJob {
  return {
    id: system.id(),
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
    input: '{"to":"ann"}',
    ownedBy: null,
    under: null,
    ...fields,
  };
}
