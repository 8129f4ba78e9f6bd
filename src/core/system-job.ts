/** The library's own jobs: artifacts, leases, schedules and what recurs are stored as jobs of queue `lastout`. */
import { plainJob } from './columns.js';
import { systemQueue } from './names.js';
import { policyText } from './options.js';
import { checkKeep } from './policy.js';
import type { NewJob } from './store.js';

/** Nothing of it stays when it has ended, unless its policy says so. */
export function systemJob(fields: Pick<NewJob, 'id' | 'type' | 'when'> & Partial<NewJob>): NewJob {
  return {
    ...plainJob,
    queue: systemQueue,
    maxAttempts: 1,
    policy: policyText({ keep: checkKeep(0) }),
    input: 'null',
    ...fields,
  };
}
