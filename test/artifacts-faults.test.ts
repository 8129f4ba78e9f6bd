// A crash, or a failure, at every single call to the store or to the blobs while artifacts are put: one sweep afterwards
// leaves nothing, and no job ever goes before what it owns.
import { describe, expect, it } from 'vitest';
import { defineJob } from '../src/index.js';
import { createWire, expectNothing, finish, inWorld, isDeath, type Way, waysOn, type World } from './artifact-world.js';
import { day, hour } from './lifecycle-support.js';
import { eachStore } from './support.js';

const retrying = { attempts: 5, backoff: { type: 'fixed', base: 0 } } as const;

/** Puts, overwrites, makes a folder, completes. */
const puts = defineJob<any, any>('puts', {
  ...retrying,
  async run({ artifact, tempDir }) {
    await tempDir();
    await artifact.put('a', 'first', { shortLink: true });
    await artifact.put('a', 'second');
    await artifact.put('b', 'third', { ttl: '1h' });
  },
});

const putsOnce = defineJob<any, any>('puts-once', {
  ...retrying,
  run: async ({ artifact }) => void (await artifact.put('a', 'first')),
});

/** One cell: the call at which it strikes; false: there were fewer calls. */
async function struck(
  world: World,
  { way, at, type, losing }: { way: Way; at: number; type: typeof puts; losing: boolean },
): Promise<boolean> {
  const wire = createWire();
  const queue = await world.start(wire);
  const { id } = await queue.enqueue(type, null);
  if (losing) {
    // While its bytes are written, the worker is taken for dead: what it confirms then is refused.
    world.whilePutting = async () => {
      world.whilePutting = async () => undefined;
      wire.arm(at, way);
      world.clock.at += 31_000;
      await world.observer.sweep({ limit: 10, cleanup: null });
    };
  } else {
    wire.arm(at, way);
  }
  const finished = finish(queue, world, type, id, losing ? 20 : 1_000);
  if (isDeath(way)) finished.catch(() => undefined);
  await Promise.race([finished, wire.died]);
  const wasHit = wire.hit;
  wire.lift();
  let next = queue;
  if (isDeath(way)) {
    wire.cut();
    world.clock.at += 31_000; // its claim has lapsed
    next = await world.start(createWire());
    await next.sweep();
    world.clock.at += hour; // a job that killed a worker may wait a little
    await finish(next, world, type, id);
  }
  world.clock.at += day + hour;
  await next.sweep();
  await expectNothing(world, id, `${way} at call ${at}`);
  wire.cut();
  return wasHit;
}

describe('whatever call fails, in whatever way', () => {
  eachStore((on) => {
    it.each(waysOn(on.engine))('%s while a job puts: one sweep leaves nothing', { timeout: 240_000 }, (way) =>
      inWorld(on.engine, async (world) => {
        let at = 1;
        while (await struck(world, { way, at, type: puts, losing: false })) at += 1;
        expect(at).toBeGreaterThan(15);
      }),
    );

    it.each(waysOn(on.engine))(
      '%s after a claim was lost while its job puts, so that the artifact is refused: one sweep leaves nothing',
      { timeout: 240_000 },
      (way) =>
        inWorld(on.engine, async (world) => {
          let at = 1;
          while (await struck(world, { way, at, type: putsOnce, losing: true })) at += 1;
          expect(at).toBeGreaterThan(5);
        }),
    );
  });
});
