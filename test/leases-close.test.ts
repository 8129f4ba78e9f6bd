// Who stops ends what its attempts have leased, within the grace, and says what still lives.
import { describe, expect, it } from 'vitest';
import { defineJob, open, type Queue } from '../src/index.js';
import { fakeClock } from '../src/testing/index.js';
import { hang, provider } from './leases-support.js';
import { eachStore, recordingLogger } from './support.js';

const room = { size: 1 };

describe('closing while attempts hold leases', () => {
  eachStore((on) => {
    async function world() {
      const { logger, lines } = recordingLogger();
      const clock = fakeClock();
      const factory = on.factory();
      const queue = await open(factory, { clock, logger });
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
      return { queue, clock, rooms, lines, factory, stay, worker, id };
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
