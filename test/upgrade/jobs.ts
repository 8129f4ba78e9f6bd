/** The job types and the resource of the stored data: whoever makes it and whoever upgrades it knows the same ones. */
import { cancel, defineJob, fail, snooze } from '../../src/index.js';
import { aesGcm } from '../codec/aes.js';
import type { provider } from '../leases-support.js';

/** A key that keeps no secret: what is stored with it is in this repository. */
export const keptCodec = { codec: aesGcm({ k1: Buffer.alloc(32, 'lastout') }) };

export const plain = defineJob<{ n: number }, { n: number }>('plain', { run: ({ input }) => input });
export const kept = defineJob<{ n: number }, { n: number }>('kept', {
  keep: { completed: 'forever' },
  run: ({ input }) => input,
});
export const counted = defineJob<{ n: number }, { n: number }>('counted', {
  keep: { completed: { count: 3 } },
  run: ({ input }) => input,
});

export type Act =
  | 'return'
  | 'throw'
  | 'snooze'
  | 'fail'
  | 'cancel'
  | 'artifacts'
  | 'talk'
  | 'stay'
  | 'stay with things';
export interface ActInput {
  readonly act: Act;
  readonly text?: string;
}

/** What the handlers of one process share: the things outside, and what those that stay wait for. */
export interface Surroundings {
  readonly boxes: ReturnType<typeof provider>;
  readonly released: Promise<unknown>;
}

/** In a process that upgrades, jobs that failed or stayed before simply return. */
export function actingIn({ boxes, released }: Surroundings) {
  return defineJob<ActInput, { done: string }>('act', {
    attempts: 2,
    backoff: { type: 'fixed', base: '1h', jitter: 0 },
    async run({ input, artifact, lease, log, progress, tempDir }) {
      if (input.act === 'throw') throw Object.assign(new Error(`thrown: ${input.text}`), { code: 'E_THROWN' });
      if (input.act === 'fail') return fail({ message: 'failed by hand', code: 'E_BY_HAND' });
      if (input.act === 'cancel') return cancel('not needed');
      if (input.act === 'snooze') return snooze('1h');
      if (input.act === 'talk') {
        log('first line', { n: 1 });
        log('second line');
        progress({ percent: 60, step: 'half', message: 'more than half' });
      }
      if (input.act === 'artifacts') {
        await artifact.put('report.txt', `report of ${input.text}`, { kind: 'report', shortLink: true });
        await artifact.put('draft.txt', 'a draft', { ttl: '7d' });
      }
      if (input.act === 'stay with things') {
        await tempDir();
        await lease(boxes.resource, { size: 3 }, { ttl: '2h' });
        await artifact.put('half.txt', 'half of it');
      }
      if (input.act.startsWith('stay')) await released;
      return { done: input.text ?? input.act };
    },
  });
}
