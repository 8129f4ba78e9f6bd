/** Jobs of the library's own that come again and again: one live job of queue `lastout` for each key, whoever claims it. */
import { policyText } from './options.js';
import { checkKeep } from './policy.js';
import { type JobFilter, noFilter, type Store } from './store.js';
import { systemJob } from './system-job.js';

export interface Recurring {
  readonly type: string;
  readonly key: string;
  /** It is due for the first time after one interval: until then those who know of it may still be starting. */
  readonly everyMs: number;
  readonly maxAttempts: number;
}

export function liveOnesOf({ type, key }: Pick<Recurring, 'type' | 'key'>): JobFilter {
  return { ...noFilter, states: ['pending', 'processing'], types: [type], key };
}

/** Who comes second finds the first, and two that come together are one by its slot. One that somebody has ended comes anew. */
export async function storeRecurring(store: Store, id: string, recurring: Recurring): Promise<void> {
  const { type, key, everyMs, maxAttempts } = recurring;
  const { jobs } = await store.find({ filter: liveOnesOf(recurring), cursor: null, limit: 1 });
  if (jobs.length > 0) return;
  const job = systemJob({
    id,
    type,
    when: { inMs: everyMs },
    maxAttempts,
    key,
    deduplication: 'skip',
    policy: policyText({ backoff: null, keep: checkKeep(0) }),
  });
  await store.insert([job], { atomic: false });
}
