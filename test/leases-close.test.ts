// Who stops ends what its attempts have leased, within the grace, and says what still lives.
import { describe, expect, it } from 'vitest';
import { defineJob, LastoutError, open, type Queue } from '../src/index.js';
import { fakeClock } from '../src/testing/index.js';
import { hang, provider } from './leases-support.js';
import { eachStore, recordingLogger, tapped } from './support.js';

const room = { size: 1 };

describe('closing while attempts hold leases', () => {
  eachStore((on) => {
    async function world() {
      const { logger, lines } = recordingLogger();
      const clock = fakeClock();
      const factory = on.factory();
      const faults = { insert: async (): Promise<void> => undefined };
      const shaky = tapped(factory, (store) => ({
        insert: async (...args) => faults.insert().then(() => store.insert(...args)),
      }));
      const queue = await open(shaky, { clock, logger });
      const rooms = provider('room', () => clock.now());
      const stay = defineJob<null, void>('stay', {
        async run({ lease, signal }) {
          await lease(rooms.resource, room);
          await hang(signal);
        },
      });
      const worker = await queue.work([stay], { concurrency: 3 });
      const { id } = await queue.enqueue(stay, null);
      await until(clock, () => rooms.inventory.size === 1);
      return { queue, clock, rooms, lines, factory, faults, stay, worker, id };
    }
    async function until(clock: ReturnType<typeof fakeClock>, isSo: () => boolean): Promise<void> {
      while (!isSo()) await clock.advance('100ms');
    }
    async function under<T>(clock: ReturnType<typeof fakeClock>, work: Promise<T>): Promise<T> {
      let over = false;
      void work.finally(() => (over = true)).catch(() => undefined);
      await until(clock, () => over);
      return work;
    }
    const closed = (clock: ReturnType<typeof fakeClock>, queue: Queue, grace: string) =>
      under(clock, queue.close({ grace: grace as '1s' }));
    const warned = 'The queue was closed while things that its jobs had leased still live; another process ends them';

    it('destroys what they hold before it is closed, and reports nothing left', async () => {
      const { queue, clock, rooms, lines, id } = await world();
      const report = await closed(clock, queue, '1s');
      expect(report).toEqual({ finished: 0, handedBack: [id], abandoned: [], leases: [] });
      expect(rooms.names()).toEqual([]);
      expect(rooms.destroyed).toHaveLength(1);
      expect(lines.map(({ message }) => message)).not.toContain(warned);
    });

    it('reports what could not be destroyed in time, says it in the log, and the next process goes on', async () => {
      const { queue, clock, rooms, lines, factory } = await world();
      const [lease] = (await queue.leases.find()).items;
      rooms.before = (step, _name, signal) => (step === 'destroy' ? hang(signal) : Promise.resolve());
      const before = clock.now().getTime();
      const report = await closed(clock, queue, '2s');
      expect(report.leases).toEqual([lease!.id]);
      expect(clock.now().getTime() - before).toBeLessThanOrEqual(3_100);
      expect(rooms.names()).toEqual([lease!.name]);
      expect(lines).toContainEqual({ level: 'warn', message: warned, fields: { leases: [lease!.id] } });
      rooms.before = async () => undefined;
      const next = await open(factory, { clock, resources: [rooms.resource] });
      await until(clock, () => rooms.inventory.size === 0);
      await closed(clock, next, '0s');
    });

    it('what it leaves alive is left behind at once for every process, until it is gone', async () => {
      const { queue, clock, rooms, factory, id: job } = await world();
      const other = await open(factory, { clock });
      const [lease] = (await queue.leases.find()).items;
      rooms.before = (step, _name, signal) => (step === 'destroy' ? hang(signal) : Promise.resolve());
      const closing = queue.close({ grace: '2s' });
      await until(clock, () => rooms.count('destroy') === 1);
      // Being ended is no fault yet.
      expect((await other.stats()).leftBehind).toBe(0);
      expect(await other.explain(lease!.id)).toMatchObject({ blockedBy: null });
      expect((await under(clock, closing)).leases).toEqual([lease!.id]);
      expect((await other.stats()).leftBehind).toBe(1);
      expect(await other.metrics()).toMatch(/^lastout_left_behind(\{.*\})? 1$/m);
      expect((await other.audit()).kinds['leases']).toMatchObject({ attention: [lease!.id] });
      expect(await other.explain(lease!.id)).toMatchObject({
        blockedBy: 'attention',
        because: expect.stringContaining('The queue that leased it was closed before it was gone.'),
      });
      expect((await other.explain(job)).because).toContain(`Its lease ${lease!.id} could not be ended yet.`);
      // Where nobody comes, one rule takes over from the other.
      for (let minute = 0; minute < 17; minute++) {
        await clock.advance('1m');
        expect((await other.stats()).leftBehind).toBe(1);
      }
      expect((await other.explain(lease!.id)).because).toContain('Nobody who knows its kind has come since ');
      rooms.before = async () => undefined;
      const next = await open(factory, { clock, resources: [rooms.resource] });
      await until(clock, () => rooms.inventory.size === 0);
      await clock.settle();
      expect((await other.stats()).leftBehind).toBe(0);
      await other.sweep();
      // Of the mark too nothing stays.
      expect(await other.audit()).toMatchObject({ clean: true, kinds: { left: { created: 1, live: 0 } } });
      for (const one of [next, other]) await closed(clock, one, '0s');
    });

    it('what another process is ending already is left behind as well, and no longer when that has come through', async () => {
      const { queue, clock, rooms, factory } = await world();
      rooms.before = (step, _name, signal) => (step === 'destroy' ? hang(signal) : Promise.resolve());
      const other = await open(factory, { clock, resources: [rooms.resource] });
      const { leases } = await closed(clock, queue, '1s');
      expect(leases).toHaveLength(1);
      expect((await other.stats()).leftBehind).toBe(1);
      const tries = rooms.count('destroy');
      await until(clock, () => rooms.count('destroy') > tries);
      expect((await other.leases.find({ state: 'ending' })).items.map(({ id }) => id)).toEqual(leases);
      expect((await other.stats()).leftBehind).toBe(1);
      rooms.before = async () => undefined;
      await until(clock, () => rooms.inventory.size === 0);
      await clock.settle();
      expect((await other.stats()).leftBehind).toBe(0);
      expect((await other.audit()).kinds['leases']).toMatchObject({ live: 0, attention: [] });
      await closed(clock, other, '0s');
    });

    it.each([
      ['fails', () => Promise.reject(new LastoutError('INVALID_INPUT', 'full')), 'full'],
      ['hangs', () => new Promise<never>(() => undefined), 'no answer'],
    ])('a store that %s while it takes the mark holds up no close', async (_, fault, error) => {
      const { queue, clock, rooms, lines, faults } = await world();
      rooms.before = (step, _name, signal) => (step === 'destroy' ? hang(signal) : Promise.resolve());
      faults.insert = fault;
      const before = clock.now().getTime();
      expect((await closed(clock, queue, '1s')).leases).toHaveLength(1);
      expect(clock.now().getTime() - before).toBeLessThanOrEqual(2_100);
      const message = 'What is left alive could not be marked';
      expect(lines).toContainEqual({ level: 'warn', message, fields: { error } });
    });

    it('a lease that was taken outside of a handler is not waited for', async () => {
      const { queue, clock, rooms } = await world();
      const mine = await queue.lease(rooms.resource, room, { ttl: '1h' });
      expect(await closed(clock, queue, '0s')).toMatchObject({ leases: [] });
      expect(rooms.names()).toEqual([mine.name]);
    });

    it('a worker that is stopped says what lives of its own attempts, and waits for none of it: the queue goes on', async () => {
      const { queue, clock, rooms, worker, stay } = await world();
      rooms.before = (step, _name, signal) => (step === 'destroy' ? hang(signal) : Promise.resolve());
      const [mine] = (await queue.leases.find()).items;
      const other = await queue.work([stay]);
      const before = clock.now().getTime();
      expect(await under(clock, worker.stop({ grace: '1s' }))).toMatchObject({ leases: [mine!.id] });
      expect(clock.now().getTime() - before).toBeLessThan(2_000);
      rooms.before = async () => undefined;
      await until(clock, () => rooms.inventory.size === 1 && !rooms.inventory.has(mine!.name)); // the other one has taken the job
      expect(other.running).toHaveLength(1);
      expect(await closed(clock, queue, '0s')).toMatchObject({ leases: [] });
    });
  });
});
