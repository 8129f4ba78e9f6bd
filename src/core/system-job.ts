/** The library's own jobs: artifacts, leases, schedules and what recurs are stored as jobs of queue `lastout`. */
import { systemQueue } from './names.js';
import { policyText } from './options.js';
import { checkKeep } from './policy.js';
import type { NewJob } from './store.js';

/** Nothing of it stays when it has ended, unless its policy says so. */
export function systemJob(fields: Pick<NewJob, 'id' | 'type' | 'when'> & Partial<NewJob>): NewJob {
  return {
    idGiven: false,
    print: null,
    queue: systemQueue,
    priority: 0,
    ttlMs: null,
    maxAttempts: 1,
    subject: null,
    key: null,
    exclusiveKey: null,
    deduplication: 'none',
    source: null,
    metadata: null,
    policy: policyText({ keep: checkKeep(0) }),
    input: 'null',
    ownedBy: null,
    under: null,
    ...fields,
  };
}
