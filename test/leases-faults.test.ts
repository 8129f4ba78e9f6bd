// A fault at every single call that a lease makes, to the store and to the provider: whatever breaks, nothing is made
// twice, nothing is destroyed while it is held, and in the end nothing is left.
import { describe, expect, it } from 'vitest';
import type { Store } from '../src/core/store.js';
import { defineJob, defineResource, type Lease, LastoutError, open, type Queue } from '../src/index.js';
import { type FakeClock, fakeClock } from '../src/testing/index.js';
import { createWire, isDeath, type Way, waysOn, type Wire } from './artifact-world.js';
import { type EngineName, withStore } from './engines.js';
import { strangerOf } from './leases-support.js';
import { closeUnder, tapped } from './support.js';
import { verbs } from './verbs.js';

const minute = 60_000;

/** What there is, and who holds it: the judge of every cell. */
function createTown(clock: FakeClock) {
  const inventory = new Map<string, Date>();
  const made = new Set<string>();
  const heldUntil = new Map<string, number>();
  const faults: string[] = [];
  return {
    inventory,
    heldUntil,
    faults,
    /** A caller has been told that it holds it until then. */
    holds: (lease: Lease) => void heldUntil.set(lease.name, lease.expiresAt.getTime()),
    resource: (wire: Wire) =>
      defineResource<null>('room', {
        create: (_spec, { name }) =>
          wire.pass(async () => {
            if (made.has(name)) faults.push(`${name} was made twice`);
            made.add(name);
            inventory.set(name, clock.now());
            return { name };
          }),
        destroy: ({ name }) =>
          wire.pass(async () => {
            if ((heldUntil.get(name) ?? 0) > clock.now().getTime())
              faults.push(`${name} was destroyed while it was held`);
            inventory.delete(name);
          }),
        list: () => wire.pass(async () => [...inventory].map(([name, createdAt]) => ({ name, createdAt }))),
      }),
  };
}

type Town = ReturnType<typeof createTown>;
type Room = ReturnType<Town['resource']>;

interface Process {
  readonly queue: Queue;
  readonly room: Room;
  readonly wire: Wire;
}

interface Operation {
  /** Nothing goes wrong here. */
  setUp?(world: World): Promise<void>;
  /** The k-th call from here on is spoilt. Rejects as the caller is told. */
  run(world: World): Promise<void>;
  /** Nothing goes wrong any more; `told`: the operation resolved. */
  check?(world: World, told: boolean): Promise<void>;
}

interface World {
  readonly a: Process;
  readonly clock: FakeClock;
  readonly town: Town;
  lease?: Lease;
}

async function takeOne({ a, town }: World): Promise<Lease> {
  const lease = await a.queue.lease(a.room, null, { ttl: '2m' });
  town.holds(lease);
  return lease;
}

const stay = (room: Room) =>
  defineJob('stay', {
    backoff: { type: 'fixed', base: 1_000 },
    async run({ lease }) {
      await lease(room, null);
    },
  });

const operations: { readonly [name: string]: () => Operation } = {
  take: () => ({
    async run(world) {
      world.lease = await takeOne(world);
    },
    async check({ lease, clock, town }, told) {
      if (!told) return;
      await clock.advance('100s');
      expect([...town.inventory.keys()]).toEqual([lease!.name]);
    },
  }),
  renew: () => ({
    async setUp(world) {
      world.lease = await takeOne(world);
      await world.clock.advance('110s');
    },
    async run({ lease, town }) {
      town.heldUntil.clear(); // until it is told, nobody knows
      await lease!.renew('2m');
      town.holds(lease!);
    },
    async check({ lease, clock, town }, told) {
      if (!told) return;
      await clock.advance('100s');
      expect([...town.inventory.keys()]).toEqual([lease!.name]);
    },
  }),
  'release and destroy': () => ({
    async setUp(world) {
      world.lease = await takeOne(world);
    },
    async run({ lease, town, clock }) {
      town.heldUntil.clear();
      await lease!.release();
      await clock.advance('1s');
    },
  }),
  'expire and destroy': () => ({
    async setUp(world) {
      await takeOne(world);
      await world.clock.advance('119s');
    },
    run: ({ clock }) => clock.advance('2s'),
  }),
  'a handler that takes one': () => ({
    async setUp({ a }) {
      await a.queue.enqueue('stay', null);
    },
    async run({ a, clock }) {
      await a.queue.work([stay(a.room)], { poll: '5s' });
      await clock.advance('1s');
    },
  }),
  'compare with what there is': () => ({
    async setUp({ town, clock, a }) {
      await a.queue.leases.find();
      const lease = await takeOne({ a, town, clock });
      await lease.renew('3m');
      town.holds(lease);
      town.inventory.set(strangerOf(lease), new Date(clock.now().getTime() - 10 * minute));
      await clock.advance('58s');
    },
    run: ({ clock }) => clock.advance('7s'),
  }),
};

/** False: there are fewer calls than that. */
async function play(engine: EngineName, operation: Operation, way: Way, k: number): Promise<boolean> {
  return withStore(engine, async (connect) => {
    const clock = fakeClock();
    const town = createTown(clock);
    const start = async (wire: Wire): Promise<Process> => {
      const room = town.resource(wire);
      const through = (store: Store): Partial<Store> =>
        Object.fromEntries(
          verbs.map((verb) => [
            verb,
            (...args: unknown[]) =>
              wire.pass(() => (store[verb] as (...given: unknown[]) => Promise<unknown>)(...args)),
          ]),
        );
      const queue = await open(tapped(connect(), through), { clock, resources: [room] });
      await clock.settle();
      return { queue, room, wire };
    };
    const a = await start(createWire());
    const world: World = { a, clock, town };
    await operation.setUp?.(world);
    a.wire.arm(k, way);
    let told: boolean | null = null;
    void operation.run(world).then(
      () => (told = true),
      (error: unknown) => {
        told = false;
        if (!(error instanceof LastoutError) && (error as Error).message !== 'connection reset')
          town.faults.push(String(error));
      },
    );
    for (let second = 0; second < 20 && told === null; second++) await clock.advance('1s'); // a call that hangs is given up
    const { hit } = a.wire;
    if (isDeath(way) && hit) town.heldUntil.clear();
    else await operation.check?.(world, told === true);
    a.wire.lift();
    const b = await start(createWire());
    await b.queue.work([stay(b.room)], { poll: '5s' });
    await clock.advance('6m');
    expect(town.faults).toEqual([]);
    expect([...town.inventory.keys()]).toEqual([]);
    expect(await b.queue.audit()).toMatchObject({ clean: true });
    expect((await b.queue.stats()).total).toMatchObject({ pending: 0, processing: 0, failed: 0 });
    for (const { queue } of [b, a]) await closeUnder(clock, queue);
    return hit;
  });
}

/** What this process makes of an error is the same on every engine. */
const ways = { memory: waysOn('memory'), sqlite: ['death after', 'error after'] } as const;

describe('whatever breaks', () => {
  for (const engine of ['memory', 'sqlite'] as const)
    for (const [name, make] of Object.entries(operations))
      it(`S22: on ${engine}, ${name}: each call in each way`, { timeout: 120_000 }, async () => {
        let cells = 0;
        for (const way of ways[engine]) {
          let k = 1;
          while (await play(engine, make(), way, k)) k += 1;
          cells += k - 1;
        }
        expect(cells).toBeGreaterThan(3);
      });
});
