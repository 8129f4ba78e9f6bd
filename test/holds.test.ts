// A hold keeps jobs, and what they own, from every way of removal until it is over.
import { describe, expect, it } from 'vitest';
import { defineJob } from '../src/index.js';
import { byHand, completes, day, hour, idsIn, readText, t0, things, watchedBlobs } from './lifecycle-support.js';
import { eachStore, expectCode, gate } from './support.js';

describe('a hold', () => {
  eachStore((on) => {
    it('keeps a job from retention, from the cap and from removal by hand, also with force', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { maxStoredJobs: 0 } });
      const id = await completes(queue, () => undefined);
      expect(await queue.hold(id, 'an audit is under way')).toBe(1);
      clock.at = t0 + 9 * day;
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
      expect(await queue.remove(id)).toMatchObject({ items: [{ id, outcome: 'held' }] });
      expect(await queue.remove(id, { force: true })).toMatchObject({ items: [{ id, outcome: 'held' }] });
      expect(await queue.explain(id)).toMatchObject({
        state: 'completed',
        because: expect.stringContaining(
          'It is held until it is released and not removed before: an audit is under way.',
        ),
        until: null,
        blockedBy: 'held',
      });
      expect((await queue.plan()).removes).toMatchObject({ age: { count: 0 }, cap: { count: 0 } });
      expect(await queue.release(id)).toBe(1);
      expect(await queue.release(id)).toBe(0);
      expect((await queue.plan()).removes).toMatchObject({ age: { count: 1 } });
      expect(await queue.sweep()).toMatchObject({ removed: 1 });
      expect(await queue.get(id)).toBeNull();
    });

    it('with a date is over on that date', async () => {
      const { queue, clock } = await byHand(on);
      const id = await completes(queue, () => undefined);
      const until = new Date(t0 + 2 * day);
      expect(await queue.hold(id, 'until the review', until)).toBe(1);
      clock.at = t0 + 2 * day - 1;
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
      expect(await queue.explain(id)).toMatchObject({ until, blockedBy: 'held' });
      clock.at = t0 + 2 * day + 1;
      await queue.sweep();
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
      expect(await queue.get(id)).toBeNull();
    });

    it('a second one takes the place of the first', async () => {
      const { queue, clock } = await byHand(on);
      const id = await completes(queue, () => undefined);
      await queue.hold(id, 'for ever');
      expect(await queue.hold(id, 'for a day', new Date(t0 + day))).toBe(1);
      expect((await queue.explain(id)).because).toContain('for a day');
      clock.at = t0 + day + 1;
      await queue.sweep();
      await queue.sweep();
      expect(await queue.get(id)).toBeNull();
    });

    it('by filter holds all that match, more than one page of them, and leaves the others', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY } });
      for (const type of ['one', 'two', 'two'])
        await queue.enqueueMany(Array.from({ length: 600 }, () => ({ type, input: null })));
      for (let i = 0; i < 2; i++) await queue.cancel({ type: ['one', 'two'] });
      expect((await queue.stats()).total.cancelled).toBe(1_800);
      expect(await queue.hold({ type: 'two' }, 'keep these')).toBe(1_200);
      clock.at = t0 + day + 1;
      const { held, removes } = await queue.plan();
      expect([held.count, held.sample.length, removes['age']!.count]).toEqual([1_200, 10, 600]);
      expect(await queue.sweep()).toMatchObject({ removed: 600 });
      expect((await queue.stats()).total.cancelled).toBe(1_200);
      expect(await queue.release({ type: 'two' })).toBe(1_200);
      expect(await queue.sweep()).toMatchObject({ removed: 1_200 });
    });

    it('of a job that is not finished stays with it to its end', async () => {
      const { queue, clock } = await byHand(on);
      const { id } = await queue.enqueue('job', null);
      expect(await queue.hold(id, 'watch this one')).toBe(1);
      expect((await queue.explain(id)).because).toContain('watch this one');
      const running = gate();
      const goOn = gate();
      const type = defineJob('job', {
        async run() {
          running.open();
          await goOn.opened;
        },
      });
      const worker = await queue.work([type]);
      await running.opened;
      expect((await queue.explain(id)).because).toContain('watch this one');
      goOn.open();
      await queue.wait(id);
      await worker.stop();
      clock.at = t0 + 2 * day;
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
      expect((await queue.explain(id)).because).toContain('watch this one');
    });

    it('keeps the artifacts of a job too, also those whose ttl is over, and against removal by hand', async () => {
      const clock = { at: t0, now: () => new Date(clock.at) };
      const watched = watchedBlobs(clock);
      const { queue, clock: own } = await byHand(on, { artifacts: { blobs: watched.blobs } });
      const id = await completes(queue, async ({ artifact }) => {
        await artifact.put('a', 'stays');
        await artifact.put('b', 'stays too', { ttl: '1h' });
      });
      await queue.hold(id, 'evidence');
      own.at = t0 + 2 * day;
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
      expect(await idsIn(watched.inner)).toHaveLength(2);
      const { id: artifact } = (await queue.artifacts.get(id, 'a'))!;
      expect(await queue.artifacts.remove(artifact)).toBe(false);
      expect(await queue.remove(artifact)).toMatchObject({ items: [{ outcome: 'held' }] });
      expect(await readText(queue, artifact)).toBe('stays');
      await queue.release(id);
      own.at += hour;
      expect(await queue.sweep()).toMatchObject({ removed: 1 });
      expect(await idsIn(watched.inner)).toEqual([]);
      expect(await things(queue)).toEqual([]);
    });

    it.each([
      ['no reason', () => ['', undefined] as const, 'INVALID_INPUT'],
      ['a reason that is no text', () => [7 as unknown as string, undefined] as const, 'INVALID_INPUT'],
      ['a date that is none', () => ['why', new Date(Number.NaN)] as const, 'INVALID_DATE'],
      ['a date that is over', () => ['why', new Date(t0)] as const, 'INVALID_DATE'],
      ['a duration', () => ['why', '5m' as unknown as Date] as const, 'INVALID_DATE'],
    ] as const)('with %s is refused', async (_what, given, code) => {
      const { queue } = await byHand(on);
      const [reason, until] = given();
      await expectCode(code, () => queue.hold('some-id', reason, until));
    });

    it('of no job in particular is refused', async () => {
      const { queue } = await byHand(on);
      await expectCode('FILTER_REQUIRED', () => queue.hold({}, 'why'));
      await expectCode('FILTER_REQUIRED', () => queue.release({}));
      expect(await queue.hold('unknown', 'why')).toBe(0);
      expect(await queue.hold({ all: true }, 'why')).toBe(0);
    });

    it('passes a codec: the reason is not stored in clear', async () => {
      const codec = {
        encode: (text: string) => Buffer.from(text).toString('base64'),
        decode: (text: string) => Buffer.from(text, 'base64').toString(),
      };
      const factory = on.factory();
      const { queue } = await byHand(on, { codec }, factory);
      const { id } = await queue.enqueue('job', null);
      await queue.hold(id, 'patient 7');
      expect((await queue.explain(id)).because).toContain('patient 7');
      const { queue: plain } = await byHand(on, {}, factory);
      const { because } = await plain.explain(id);
      expect(because).not.toContain('patient 7');
      expect(because).toContain('It is held until it is released');
    });
  });
});
