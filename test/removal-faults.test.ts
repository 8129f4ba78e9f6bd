// A crash, or a failure, at every single call of every way in which jobs and artifacts are removed: one sweep afterwards
// (of a live job, the same call again) leaves nothing, and the order is always the same: bytes, record, job.
import { describe, expect, it, vi } from 'vitest';
import { defineJob, type OpenOptions, type Queue } from '../src/index.js';
import { createWire, expectNothing, expectOrder, finish, inWorld, isDeath, judge, waysOn, type World } from './artifact-world.js'; // biome-ignore format: one list
import { day, hour, idsIn } from './lifecycle-support.js';
import { eachStore } from './support.js';

interface Removal {
  readonly keep?: { count: number };
  /** In which state the job is when it is to go; unless it is said, it has finished. */
  readonly from?: 'pending' | 'processing';
  readonly cleanup?: OpenOptions['cleanup'];
  /** Until the rule takes the job or the artifact. */
  readonly afterMs: number;
  remove(queue: Queue, id: string): Promise<unknown>;
  /** What is left of the two artifacts; 0: the job is gone too. */
  readonly leaves: number;
  /** So long after a crash one sweep does the rest. */
  readonly waitMs: number;
}

const sweeps = (queue: Queue): Promise<unknown> => queue.sweep();
/** The term of a dead maintainer has lapsed, what was held for a while is free. */
const waitMs = 2 * hour;

const removals: { readonly [title: string]: Removal } = {
  'by age': { afterMs: day + hour, remove: sweeps, leaves: 0, waitMs },
  'by count': { keep: { count: 0 }, afterMs: 0, remove: sweeps, leaves: 0, waitMs },
  'by the cap': { cleanup: { maxStoredJobs: 0 }, afterMs: 0, remove: sweeps, leaves: 0, waitMs },
  'by hand': { afterMs: 0, remove: (queue, id) => queue.remove(id), leaves: 0, waitMs: day + hour },
  'by hand, of one that waits for its next attempt': {
    from: 'pending',
    afterMs: 0,
    remove: (queue, id) => queue.remove(id),
    leaves: 0,
    waitMs: day + hour,
  },
  'by force, of one that runs': {
    from: 'processing',
    afterMs: 0,
    remove: (queue, id) => queue.remove(id, { force: true }),
    leaves: 0,
    waitMs: day + hour,
  },
  'by the ttl of an artifact': { afterMs: hour + 1, remove: sweeps, leaves: 1, waitMs },
  'of an artifact by hand': { afterMs: 0, remove: removeOne, leaves: 1, waitMs },
};

async function removeOne(queue: Queue, id: string): Promise<void> {
  const found = await queue.artifacts.get(id, 'b');
  if (found) await queue.artifacts.remove(found.id);
}

function typeFor({ keep, from }: Removal) {
  return defineJob<any, any>('puts', {
    ...(keep && { keep }),
    backoff: { type: 'fixed', base: 7 * day },
    async run({ artifact }) {
      await artifact.put('a', 'first');
      await artifact.put('b', 'second', { ttl: '1h' });
      if (from === 'pending') throw new Error('once more, next week');
      if (from === 'processing') await new Promise(() => undefined);
    },
  });
}

/** Begun by a process that is not heard of again, so that nothing else happens to the job. */
async function begin(world: World, removal: Removal, type: ReturnType<typeof typeFor>, id: string): Promise<void> {
  const wire = createWire();
  const queue = await world.start(wire, removal.cleanup);
  await queue.work([type]);
  await vi.waitFor(async () => {
    const job = await queue.get(id);
    expect([job!.state, job!.attempts]).toEqual([removal.from, 1]);
    expect(await queue.artifacts.list(id)).toHaveLength(2);
  }, 10_000);
  wire.cut();
}

/** A job with two artifacts, at the moment when it, or one of them, is to go. */
async function ready(world: World, removal: Removal) {
  const wire = createWire();
  const queue = await world.start(wire, removal.cleanup);
  const type = typeFor(removal);
  const { id } = await queue.enqueue(type, null);
  if (removal.from) await begin(world, removal, type, id);
  else await finish(queue, world, type, id);
  expect(await queue.artifacts.list(id)).toHaveLength(2);
  world.clock.at += removal.afterMs;
  return { wire, queue, id };
}

describe.each(Object.entries(removals))('removal %s', (_title, removal) => {
  eachStore((on) => {
    it.each(waysOn(on.engine))('%s at any call: one sweep leaves nothing', { timeout: 240_000 }, (way) =>
      inWorld(on.engine, async (world) => {
        let at = 1;
        for (let wasHit = true; wasHit; at++) {
          const { wire, queue, id } = await ready(world, removal);
          wire.arm(at, way);
          await Promise.race([removal.remove(queue, id).catch(() => undefined), wire.died]);
          wasHit = wire.hit;
          wire.lift();
          if (isDeath(way)) wire.cut();
          await judge(world);
          world.clock.at += removal.waitMs;
          const next = isDeath(way) ? await world.start(createWire(), removal.cleanup) : queue;
          // No rule takes a live job: whoever wanted it gone asks again.
          if (removal.from) await removal.remove(next, id);
          await next.sweep();
          if (removal.leaves > 0) {
            expect(await idsIn(world.blobs), `${way} at call ${at}`).toHaveLength(removal.leaves);
            world.clock.at += day;
            await next.sweep();
          }
          await expectNothing(world, id, `${way} at call ${at}`);
          wire.cut();
        }
        expect(at).toBeGreaterThan(4);
      }),
    );

    it('goes in order, and leaves alone what it does not mean', () =>
      inWorld(on.engine, async (world) => {
        const { queue, id } = await ready(world, removal);
        const made = world.happened.splice(0).map(([, thing]) => thing!);
        await removal.remove(queue, id);
        expect(await queue.artifacts.list(id)).toHaveLength(removal.leaves);
        expect(await idsIn(world.blobs)).toEqual(made.slice(0, removal.leaves));
        if (removal.leaves === 0)
          return expectOrder([...made.map((thing) => ['put', thing] as const), ...world.happened], id, 'removed');
        expect(world.happened).toEqual([['bytes', made[1]], ['removed', made[1]]]); // biome-ignore format: one list
      }));
  });
});
