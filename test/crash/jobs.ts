// The job types of the crash tests, as the producers see them; the code is in worker.ts.
import { defineJob } from '../../src/index.js';

/** How long the handler works. */
export interface Work {
  readonly ms: number;
}
export interface KeyedWork extends Work {
  readonly key: string;
}

export const plain = defineJob<Work>('plain', {});
/** Long enough to be caught in the middle. */
export const slow = defineJob<Work>('slow', {});
/** Fails at its first attempt and completes at its second. */
export const flaky = defineJob<Work>('flaky', { attempts: 5, backoff: { type: 'fixed', base: 20, jitter: 0 } });
/** Never two of one key at once. */
export const keyed = defineJob<KeyedWork>('keyed', { exclusiveKey: ({ key }) => key });
export const skipped = defineJob<KeyedWork>('skipped', {
  deduplication: 'skip',
  deduplicationKey: ({ key }) => key,
});
/** So short that workers claim it ahead. */
export const quick = defineJob<Work>('quick', {});
/** Blocks the event loop of its first worker past its lease. */
export const blocking = defineJob<Work>('blocking', {});
/** Kills its own worker. */
export const poison = defineJob<Work>('poison', {});

export const attemptsOf = (type: string): number => (type === flaky.name ? 2 : 1);
