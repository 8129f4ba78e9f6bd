// Explaining: for every place a job can be in, why it is there, what it waits for, and when and why it goes.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { defineJob, type Explanation, type Keep, type Queue } from '../src/index.js';
import { withStore } from './engines.js';
import { byHand, completes, contextFor, day, hour, minute, t0, things } from './lifecycle-support.js';
import { eachStore, expectCode, gate } from './support.js';

/** As many jobs as a plan names at most. */
const anyWorld = fc.record({
  jobs: fc.array(
    fc.record({
      type: fc.constantFrom('a', 'b'),
      keep: fc.constantFrom<Keep | undefined>(
        undefined,
        'forever',
        hour,
        { count: 0 },
        { count: 2 },
        { age: hour, count: 1 },
      ),
      held: fc.integer({ min: 0, max: 4 }).map((n) => n === 0),
      ttl: fc.boolean(),
      wait: fc.constantFrom(0, 1, minute, hour),
    }),
    { maxLength: 10 },
  ),
  cleanup: fc.record({
    maxStoredJobs: fc.oneof(fc.nat(10), fc.constant(Number.POSITIVE_INFINITY)),
    jobRetentionMs: fc.constantFrom(0, hour, 2 * hour, day),
    useCompletedTime: fc.boolean(),
  }),
  later: fc.constantFrom(minute, hour, 2 * hour),
});

/** The rule by which a job goes with the next cleanup, as its explanation says. */
function ruleIn({ because, blockedBy }: Explanation): string | undefined {
  const text = /It goes with the next cleanup: (.*)/.exec(because)?.[1];
  if (text === undefined || blockedBy === 'held') return undefined;
  return text.startsWith('of its type') ? 'count' : text.startsWith('more than') ? 'cap' : 'age';
}

const iso = (ms: number): string => new Date(ms).toISOString();

/** A worker whose handlers run until they are let go. */
function busy() {
  const begun = gate<string>();
  const goOn = gate();
  const type = defineJob<any, any>('job', {
    attempts: 3,
    async run({ job }) {
      begun.open(job.id);
      await goOn.opened;
    },
  });
  return { type, begun, goOn };
}

describe('a pending job', () => {
  eachStore((on) => {
    it('that is not due', async () => {
      const { queue } = await byHand(on);
      const { id } = await queue.enqueue('job', null, { delay: '1h' });
      expect(await queue.explain(id)).toEqual({
        id,
        state: 'pending',
        because: `It is not due before ${iso(t0 + hour)}.`,
        until: new Date(t0 + hour),
        blockedBy: 'delay',
      });
    });

    it('that waits for its next attempt', async () => {
      const { queue } = await byHand(on);
      const type = defineJob<any, any>('job', {
        backoff: { type: 'fixed', base: '1h', jitter: 0 },
        run: () => {
          throw new Error('no route to host.');
        },
      });
      const worker = await queue.work([type]);
      const { id } = await queue.enqueue(type, null);
      await expect.poll(async () => (await queue.get(id))!.error).not.toBeNull();
      await worker.stop();
      expect(await queue.explain(id)).toMatchObject({
        because: `Attempt 1 of 3 failed: no route to host. It is not due before ${iso(t0 + hour)}.`,
        until: new Date(t0 + hour),
        blockedBy: 'delay',
      });
    });

    it('whose exclusive key another one has', async () => {
      const { queue } = await byHand(on);
      const { type, begun, goOn } = busy();
      await queue.work([type]);
      const { id: first } = await queue.enqueue(type, null, { exclusiveKey: 'k' });
      await begun.opened;
      const { id } = await queue.enqueue(type, null, { exclusiveKey: 'k' });
      expect(await queue.explain(id)).toEqual({
        id,
        state: 'pending',
        because: `It is due since ${iso(t0)}, but job ${first} has the turn of its exclusive key "k".`,
        until: null,
        blockedBy: first,
      });
      goOn.open();
    });

    it('whose queue is paused', async () => {
      const { queue } = await byHand(on);
      const { id } = await queue.enqueue('job', null);
      await queue.pause('default');
      expect(await queue.explain(id)).toMatchObject({
        because: `It is due since ${iso(t0)}, but its queue "default" is paused.`,
        blockedBy: 'paused',
      });
      await queue.resume();
      await queue.pause();
      expect(await queue.explain(id)).toMatchObject({ blockedBy: 'paused' });
    });

    it('whose queue runs as many jobs as it may', async () => {
      const { queue } = await byHand(on, { queues: { default: { concurrency: 1 } } });
      const { type, begun, goOn } = busy();
      await queue.work([type]);
      await queue.enqueue(type, null);
      await begun.opened;
      const { id } = await queue.enqueue(type, null);
      expect(await queue.explain(id)).toMatchObject({
        because: `It is due since ${iso(t0)}, but as many jobs of queue "default" run as may run at once.`,
        until: null,
        blockedBy: 'concurrency',
      });
      goOn.open();
    });

    it('whose queue has used up its rate', async () => {
      const { queue } = await byHand(on, { queues: { default: { rate: { max: 1, per: '1h' } } } });
      await completes(queue, () => undefined);
      const { id } = await queue.enqueue('job', null);
      const { because, until, blockedBy } = await queue.explain(id);
      expect(because).toContain('but queue "default" has started as many jobs as its rate allows until ');
      expect(until!.getTime()).toBeGreaterThan(t0);
      expect(blockedBy).toBe('rate');
    });

    it('that no worker takes', async () => {
      const { queue } = await byHand(on);
      const { id } = await queue.enqueue('job', null, { ttl: '1h' });
      const other = await queue.work([defineJob('other', { run: () => undefined })]);
      const elsewhere = await queue.work([defineJob('job', { run: () => undefined })], { queues: ['mail'] });
      expect(await queue.explain(id)).toEqual({
        id,
        state: 'pending',
        because:
          `It is due since ${iso(t0)}, but no worker takes type "job" of queue "default". ` +
          `If it has not started by ${iso(t0 + hour)}, it expires.`,
        until: null,
        blockedBy: 'worker',
      });
      await other.stop();
      await elsewhere.stop();
    });

    it('that waits for a slot; the card of a stopped worker does not count', async () => {
      const { queue } = await byHand(on);
      const begun: string[] = [];
      const goOn = gate();
      const type = defineJob<any, any>('job', {
        async run({ job }) {
          begun.push(job.id);
          await goOn.opened;
        },
      });
      const stopped = await queue.work([type]);
      await stopped.stop();
      await queue.work([type], { concurrency: 1 });
      await queue.enqueue(type, null);
      await expect.poll(() => begun.length).toBe(1);
      const { id } = await queue.enqueue(type, null, { priority: 1 });
      await expect
        .poll(async () => (await queue.explain(id)).because)
        .toBe(`It is due since ${iso(t0)}, and waits for a free slot of the worker that takes type "job".`);
      expect(await queue.explain(id)).toMatchObject({ until: null, blockedBy: null });
      await queue.enqueue(type, null);
      await queue.work([type], { concurrency: 1, name: 'second' });
      await expect.poll(() => begun.length).toBe(2);
      await expect
        .poll(async () => (await queue.explain(id)).because)
        .toContain('waits for a free slot of one of the 2 workers that take type "job"');
      goOn.open();
    });

    it('is expired as soon as its ttl is over, swept or not', async () => {
      const { queue, clock } = await byHand(on);
      const { id } = await queue.enqueue('job', null, { ttl: '1m' });
      clock.at = t0 + minute;
      expect(await queue.explain(id)).toMatchObject({
        state: 'expired',
        because: expect.stringContaining(`It is expired since ${iso(t0 + minute)}.`) as string,
      });
    });

    it('of the library', async () => {
      const { queue } = await byHand(on);
      await queue.schedule('nightly', 'job', null, { every: '1h' });
      const [schedule] = (await queue.find({ type: 'lastout.schedule' })).items;
      const { because } = await queue.explain(schedule!.id);
      expect(because).toContain('It is lastout.schedule "nightly" of the library; it is due ');
    });

    it('that is an artifact or a temporary folder', async () => {
      const { queue } = await byHand(on);
      let folder = '';
      const ready = gate();
      const goOn = gate();
      const type = defineJob<any, any>('job', {
        async run({ artifact, tempDir }) {
          await tempDir();
          [folder] = (await things(queue)) as [string];
          await artifact.put('a', 'x');
          await artifact.put('b', 'x', { ttl: '1h' });
          ready.open();
          await goOn.opened;
        },
      });
      await queue.work([type]);
      const { id } = await queue.enqueue(type, null);
      await ready.opened;
      const a = (await queue.artifacts.get(id, 'a'))!.id;
      const b = (await queue.artifacts.get(id, 'b'))!.id;
      expect(await queue.explain(a)).toMatchObject({
        because: `It is an artifact of job ${id} and goes before it goes.`,
        until: null,
      });
      expect(await queue.explain(b)).toMatchObject({
        because: `It is an artifact of job ${id} and goes before it goes, or after ${iso(t0 + hour)}.`,
        until: new Date(t0 + hour),
      });
      expect((await queue.explain(folder)).because).toContain(`It is a temporary folder of job ${id}`);
      goOn.open();
    });

    it('that is an artifact which is not wholly written', async () => {
      const { queue } = await byHand(on);
      const halfway = gate();
      const goOn = gate();
      async function* slow(): AsyncIterable<Uint8Array> {
        halfway.open();
        await goOn.opened;
        yield Buffer.from('x');
      }
      const type = defineJob<any, any>('job', { run: async ({ artifact }) => void (await artifact.put('a', slow())) });
      await queue.work([type]);
      const { id } = await queue.enqueue(type, null);
      await halfway.opened;
      const [intent] = await things(queue);
      expect((await queue.explain(intent!)).because).toBe(
        `It is an artifact, not wholly written yet, of job ${id} and goes before it goes, or after ${iso(t0 + hour)}.`,
      );
      goOn.open();
    });
  });
});

describe('a running job', () => {
  eachStore((on) => {
    it('names its worker, and how long its claim holds', async () => {
      const { queue } = await byHand(on);
      const { type, begun, goOn } = busy();
      const worker = await queue.work([type]);
      const { id } = await queue.enqueue(type, null);
      await begun.opened;
      const explained = await queue.explain(id);
      expect(explained).toMatchObject({
        state: 'processing',
        because: `Worker ${worker.id} runs it, attempt 1 of 3; its claim holds until ${explained.until!.toISOString()}.`,
        blockedBy: null,
      });
      await queue.cancel(id, { reason: 'changed my mind' });
      expect((await queue.explain(id)).because).toContain(`A cancel was requested ${iso(t0)}`);
      goOn.open();
    });

    it('whose claim has lapsed', async () => {
      const factory = on.factory();
      const { queue, clock } = await byHand(on, {}, factory);
      const { id } = await queue.enqueue('job', null);
      const store = await factory.open(contextFor(clock));
      await store.claim({
        owner: 'gone',
        types: ['job'],
        queues: null,
        slots: 1,
        ahead: 0,
        leaseMs: 30_000,
        maxStalls: 3,
      });
      clock.at = t0 + 30_000;
      expect((await queue.explain(id)).because).toBe(
        `Worker gone has not been heard of since its claim lapsed ${iso(t0 + 30_000)}; the job comes back with the next tending.`,
      );
      await store.close();
    });
  });
});

describe('a finished job', () => {
  eachStore((on) => {
    const finish = async (queue: Queue, keep?: Keep): Promise<string> => {
      const { id } = await queue.enqueue('job', null, keep === undefined ? {} : { keep });
      await queue.cancel(id);
      return id;
    };

    it('goes by the policy', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { maxStoredJobs: 100 } });
      const id = await finish(queue);
      expect(await queue.explain(id)).toEqual({
        id,
        state: 'cancelled',
        because:
          `It is cancelled since ${iso(t0)}. It goes after ${iso(t0 + day)}: jobRetentionMs keeps it for 1d ` +
          'from its end. It goes sooner if more than 100 jobs are stored.',
        until: new Date(t0 + day),
        blockedBy: null,
      });
      clock.at = t0 + day + 1;
      expect((await queue.explain(id)).because).toBe(
        `It is cancelled since ${iso(t0)}. It goes with the next cleanup: jobRetentionMs keeps it for 1d from its end, until ${iso(t0 + day)}.`,
      );
    });

    it('goes by the policy from its creation where that counts', async () => {
      const { queue } = await byHand(on, {
        cleanup: { useCompletedTime: false, maxStoredJobs: Number.POSITIVE_INFINITY },
      });
      const id = await finish(queue);
      expect((await queue.explain(id)).because).toContain('from its creation.');
    });

    it('goes by the rule of its type, by age and count', async () => {
      const { queue } = await byHand(on, { cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY } });
      const id = await finish(queue, { age: '1h', count: 5 });
      expect(await queue.explain(id)).toMatchObject({
        because:
          `It is cancelled since ${iso(t0)}. It goes after ${iso(t0 + hour)}: keep of type "job" is 1h for ` +
          'cancelled jobs. Of its type and state the newest 5 are kept at most.',
        until: new Date(t0 + hour),
      });
    });

    it('goes with the next cleanup where as many newer ones stand as its type keeps', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY } });
      const first = await finish(queue, { count: 1 });
      clock.at += 1;
      const second = await finish(queue, { count: 1 });
      expect(await queue.explain(first)).toEqual({
        id: first,
        state: 'cancelled',
        because:
          `It is cancelled since ${iso(t0)}. It goes with the next cleanup: of its type and state the newest 1 are kept, ` +
          'and it is none of them.',
        until: new Date(clock.at),
        blockedBy: null,
      });
      expect(await queue.explain(second)).toMatchObject({
        because: expect.stringContaining('It goes after') as string,
        until: new Date(t0 + 1 + day),
      });
    });

    it('goes with the next cleanup where it is one of the oldest above the cap', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { maxStoredJobs: 2 } });
      const ids: string[] = [];
      for (let n = 0; n < 3; n++) {
        ids.push(await finish(queue, 'forever'));
        clock.at += 1;
      }
      expect(await queue.explain(ids[0]!)).toMatchObject({
        because:
          `It is cancelled since ${iso(t0)}. It goes with the next cleanup: more than 2 jobs are stored, ` +
          'and it is among the oldest finished ones.',
        until: new Date(clock.at),
      });
      expect((await queue.explain(ids[1]!)).because).toContain('It stays: keep of type "job" says for ever.');
      await queue.hold(ids[0]!, 'an audit is under way');
      expect((await queue.explain(ids[0]!)).because).not.toContain('next cleanup');
      expect((await queue.explain(ids[1]!)).because).toContain('It goes with the next cleanup: more than 2 jobs');
    });

    it('stays while something that it owns is held', async () => {
      const { queue, clock } = await byHand(on);
      const id = await completes(queue, async ({ artifact }) => void (await artifact.put('a', 'x')));
      const artifact = (await queue.artifacts.get(id, 'a'))!.id;
      await queue.hold(artifact, 'an audit is under way');
      clock.at = t0 + day + 1;
      expect(await queue.explain(id)).toMatchObject({
        because: expect.stringContaining('It stays while something that it owns is held') as string,
        until: null,
      });
      await queue.release(artifact);
      expect((await queue.explain(id)).because).toContain('It goes with the next cleanup: jobRetentionMs');
    });

    it('goes with the next cleanup by the rule that the plan says, and else does not', {
      timeout: 240_000,
    }, async () => {
      const runs = on.engine === 'memory' ? 100 : on.engine === 'sqlite' ? 25 : 10;
      await fc.assert(
        fc.asyncProperty(anyWorld, async ({ jobs, cleanup, later }) => {
          await withStore(on.engine, async (connect) => {
            const { queue, clock } = await byHand(on, { cleanup }, connect());
            const ids: string[] = [];
            for (const { type, keep, held, ttl, wait } of jobs) {
              const { id } = await queue.enqueue(type, null, {
                ...(keep !== undefined && { keep }),
                ...(ttl && { ttl: minute }),
              });
              ids.push(id);
              if (!ttl) await queue.cancel(id);
              if (held) await queue.hold(id, 'x', new Date(clock.at + 2 * hour));
              clock.at += wait;
            }
            clock.at += later;
            const told = new Map<string, string | undefined>();
            // Before the plan, which tends: what is over is over, tended or not.
            for (const id of ids) told.set(id, ruleIn(await queue.explain(id)));
            const { removes } = await queue.plan();
            for (const id of ids)
              expect([id, told.get(id)]).toEqual([
                id,
                ['age', 'count', 'cap'].find((rule) => removes[rule]!.sample.includes(id)),
              ]);
            await queue.close({ grace: 0 });
          });
        }),
        { numRuns: runs },
      );
    });

    it('stays where its type says for ever', async () => {
      const { queue } = await byHand(on, { cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY } });
      const id = await finish(queue, 'forever');
      expect(await queue.explain(id)).toMatchObject({
        because: `It is cancelled since ${iso(t0)}. It stays: keep of type "job" says for ever.`,
        until: null,
      });
    });

    it('goes after what it owns', async () => {
      const { queue } = await byHand(on);
      const one = await completes(queue, async ({ artifact }) => void (await artifact.put('a', 'x')));
      expect((await queue.explain(one)).because).toContain('It owns one thing, which goes first.');
      const two = await completes(queue, async ({ artifact }) => {
        await artifact.put('a', 'x');
        await artifact.put('b', 'x');
      });
      expect((await queue.explain(two)).because).toContain('It owns 2 things, which go first.');
    });
  });
});

describe('a removed job', () => {
  eachStore((on) => {
    it('by age, by count, by the cap and by hand', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { maxStoredJobs: 2 } });
      const ended = async (type: string, keep?: Keep): Promise<string> => {
        const { id } = await queue.enqueue(type, null, keep === undefined ? {} : { keep });
        await queue.cancel(id);
        return id;
      };
      const byHandGone = await ended('hand');
      await queue.remove(byHandGone);
      const { id: pending } = await queue.enqueue('pending', null);
      await queue.remove(pending);
      const byAge = await ended('age', '1m');
      const byCount = await ended('count', { count: 0 });
      clock.at += 1;
      const byCap = await ended('cap');
      clock.at += 1;
      await ended('stays');
      await ended('stays');
      clock.at = t0 + 2 * minute;
      expect(await queue.sweep()).toMatchObject({ removedBy: { age: 1, count: 1, cap: 1 } });
      const gone = async (id: string, state: string, type: string, at: number): Promise<string> => {
        const explained = await queue.explain(id);
        expect(explained).toMatchObject({ id, state: 'removed', until: null, blockedBy: null });
        const start = `It was a ${state} job of type "${type}" in queue "default" and was removed ${iso(at)}: `;
        expect(explained.because.startsWith(start), explained.because).toBe(true);
        return explained.because.slice(start.length);
      };
      expect(await gone(byHandGone, 'cancelled', 'hand', t0)).toBe('somebody removed it by hand.');
      expect(await gone(pending, 'pending', 'pending', t0)).toBe('somebody removed it by hand.');
      expect(await gone(byAge, 'cancelled', 'age', clock.at)).toBe('it was past its retention.');
      expect(await gone(byCount, 'cancelled', 'count', clock.at)).toBe(
        'newer jobs of its type and state took its place.',
      );
      expect(await gone(byCap, 'cancelled', 'cap', clock.at)).toBe(
        'more jobs were stored than maxStoredJobs allows, and it was among the oldest finished ones.',
      );
    });

    it('that was never here is unknown', async () => {
      const { queue } = await byHand(on);
      await expectCode('JOB_NOT_FOUND', () => queue.explain('never-here'));
      await expectCode('INVALID_ID', () => queue.explain('no id!'));
    });
  });
});
