// Types that nobody takes: a warning of health, per type and with how many wait; and what is no trouble.
import { describe, expect, it } from 'vitest';
import { defineJob } from '../src/index.js';
import { eachStore, healthOf } from './support.js';

const taken = defineJob<null>('taken', { run: () => undefined });
const orphan = (type: string): string => `Nobody takes type "${type}"`;

describe('a type that nobody takes', () => {
  eachStore((on) => {
    const stage = async () => {
      const { queue, clock } = await on.still();
      const told = async () =>
        (await healthOf(queue)).warnings
          .filter(({ code }) => code === 'NOBODY_TAKES')
          .map(({ message }) => message)
          .sort();
      return { queue, clock, told };
    };

    it('is a warning of health once its oldest job is due for more than a minute, with how many wait', async () => {
      const { queue, clock, told } = await stage();
      await queue.work([taken]);
      await queue.enqueueMany([
        { type: 'a', input: null },
        { type: 'a', input: null, options: { priority: 5, queue: 'other' } },
        { type: 'a', input: null, options: { exclusiveKey: 'k' } },
        { type: 'a', input: null, options: { exclusiveKey: 'k' } },
        { type: 'later', input: null, options: { delay: '30s' } },
        { type: taken, input: null },
        { type: 'short', input: null, options: { ttl: '30s' } },
      ]);
      await clock.advance('1m');
      expect(await told()).toEqual([]);
      await clock.advance('1s');
      expect(await told()).toEqual([
        `${orphan('a')}: 4 jobs are due in 2 queues, the oldest for more than a minute, and no worker has this type.`,
      ]);
      await clock.advance('30s');
      expect(await told()).toEqual([
        expect.stringContaining(orphan('a')),
        `${orphan('later')}: 1 job is due in queue "default", the oldest for more than a minute, and no worker has this type.`,
      ]);
      expect((await healthOf(queue)).ok).toBe(true);
    });

    it('a worker of another queue does not count, a worker of this one does, and a paused queue is left out', async () => {
      const { queue, clock, told } = await stage();
      await queue.enqueue(taken, null, { queue: 'x' });
      const worker = await queue.work([taken], { queues: ['y'] });
      await clock.advance('61s');
      expect(await told()).toEqual([expect.stringContaining(orphan('taken'))]);
      await queue.pause('x');
      expect(await told()).toEqual([]);
      await queue.resume('x');
      await worker.stop();
      await queue.work([taken], { queues: ['x'] });
      await clock.advance('1s');
      expect(await told()).toEqual([]);
    });

    it('is none for an hour after runUntilIdle, which is no living worker all the same', async () => {
      const { queue, clock, told } = await stage();
      await Promise.all([queue.runUntilIdle([taken]), clock.advance('1s')]);
      await Promise.all([queue.runUntilIdle([taken]), clock.advance('1s')]);
      const { id } = await queue.enqueue(taken, null);
      await clock.advance('50m');
      expect(await told()).toEqual([]);
      expect((await queue.alerts()).filter(({ rule }) => rule === 'noWorkers' || rule === 'nobodyTakes')).toEqual([]);
      expect((await queue.explain(id)).blockedBy).toBe('worker');
      expect(await queue.metrics()).toMatch(/^lastout_workers 0$/m);
      await clock.advance('11m');
      expect(await told()).toEqual([expect.stringContaining(orphan('taken'))]);
    });
  });
});
