// Jobs so large that a store gives those of one question on several pages: nobody takes the first page for all of them.
import { existsSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { defineJob, type Queue } from '../src/index.js';
import { byHand, hour, t0 } from './lifecycle-support.js';
import { eachStore, gate, temporaryFolder } from './support.js';

const large = 'x'.repeat(240_000);
const many = 60;

async function enqueueLarge(queue: Queue, type: string): Promise<string[]> {
  const accepted = await queue.enqueueMany(Array.from({ length: many }, () => ({ type, input: { large } })));
  return accepted.map(({ id }) => id);
}

describe('jobs with large inputs and results', () => {
  eachStore((on) => {
    it('are all waited for, however many wait at once', async () => {
      const queue = await on.open();
      const ids = await enqueueLarge(queue, 'job');
      const waiting = Promise.all(ids.map(async (id) => (await queue.wait(id)).state));
      const type = defineJob<any, any>('job', { run: () => 1 });
      await queue.work([type], { concurrency: 20 });
      expect(await waiting).toEqual(ids.map(() => 'completed'));
    });

    it('keep their artifacts while they are held, also those that have expired', async () => {
      const { queue, clock } = await byHand(on);
      const type = defineJob<any, any>('job', {
        keep: 'forever',
        async run({ artifact }) {
          await artifact.put('evidence', 'bytes', { ttl: '10m' });
          return large;
        },
      });
      const ids = (await queue.enqueueMany(Array.from({ length: many }, () => ({ type, input: null })))).map(
        ({ id }) => id,
      );
      await queue.runUntilIdle([type], { concurrency: 20 });
      expect(await queue.hold({ type: 'job' }, 'evidence')).toBe(many);
      clock.at = t0 + hour;
      await queue.sweep();
      const { items } = await queue.find({ type: 'lastout.artifact', limit: 200 });
      expect(items.map(({ id }) => id)).toHaveLength(ids.length);
      expect(await queue.release({ type: 'job' })).toBe(many);
    });

    it('keep their temporary folders while they run, for however many hours', async () => {
      const { queue, clock } = await byHand(on, { artifacts: { dir: temporaryFolder() } });
      const folders: string[] = [];
      const [ready, goOn] = [gate(), gate()];
      const type = defineJob<any, any>('job', {
        async run({ tempDir }) {
          folders.push(await tempDir());
          if (folders.length === many) ready.open();
          await goOn.opened;
        },
      });
      await enqueueLarge(queue, 'job');
      await queue.work([type], { concurrency: many, lease: '1w' });
      await ready.opened;
      clock.at = t0 + 2 * hour;
      await queue.sweep();
      expect(folders.filter((folder) => existsSync(folder))).toHaveLength(many);
      goOn.open();
    });

    it('are removed with what they own, all that a call names', async () => {
      const { queue } = await byHand(on);
      const type = defineJob<any, any>('job', {
        async run({ artifact }) {
          await artifact.put('report', 'bytes');
        },
      });
      const ids = await enqueueLarge(queue, 'job');
      await queue.runUntilIdle([type], { concurrency: 20 });
      const outcomes = new Map<string, string>();
      for (let cursor: string | null = null; ; ) {
        const page: Awaited<ReturnType<Queue['remove']>> = await queue.remove(
          { id: ids },
          cursor === null ? {} : { cursor },
        );
        for (const { id, outcome } of page.items) outcomes.set(id, outcome);
        expect(page.items.length).toBeGreaterThan(1);
        if (page.next === null) break;
        cursor = page.next;
      }
      expect(ids.map((id) => outcomes.get(id))).toEqual(ids.map(() => 'removed'));
      expect((await queue.find({ type: 'lastout.artifact' })).items).toEqual([]);
    });

    it('come on pages of many', async () => {
      const queue = await on.open();
      const ids = await enqueueLarge(queue, 'job');
      expect((await queue.find({ type: 'job', limit: 20 })).items).toHaveLength(20);
      expect((await queue.cancel({ id: ids })).items.length).toBeGreaterThanOrEqual(20);
    });
  });
});
