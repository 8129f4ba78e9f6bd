// A crash, or a failure, at every single call to the store or to the blobs, while artifacts are put and while they are
// removed: one sweep afterwards leaves nothing, and no job ever goes before what it owns.
import { describe, expect, it } from 'vitest';
import { memoryBlobs } from '../src/artifacts/memory.js';
import type { BlobStore } from '../src/core/blobs.js';
import type { MoveRequest, Store, StoreFactory } from '../src/core/store.js';
import { defineJob, LastoutError, open, type OpenOptions, type Queue } from '../src/index.js';
import { type EngineName, withStore } from './engines.js';
import { allRows, contextFor, day, handClock, type HandClock, hour, idsIn } from './lifecycle-support.js';
import { eachStore, gate } from './support.js';
import { verbs } from './verbs.js';

type Way = 'death before' | 'death after' | 'error before' | 'error after' | 'refusal';

/** Counts the calls of one process from the moment it is armed, and spoils the k-th. */
function createWire() {
  let fault: { at: number; way: Way } | null = null;
  let calls = 0;
  let isCut = false;
  const died = gate();
  const never = new Promise<never>(() => undefined);
  const log: string[] = [];

  async function pass<T>(what: string, call: () => Promise<T>): Promise<T> {
    if (isCut) return never;
    const strikes = fault !== null && ++calls === fault.at;
    const way = strikes ? fault!.way : null;
    if (way === 'refusal') throw new LastoutError('STORE_UNAVAILABLE', 'Locked; nothing was done.');
    if (way === 'error before') throw new Error('connection reset');
    if (way === 'death before') return die();
    const answer = await call();
    if (isCut) return never;
    log.push(what);
    if (way === 'error after') throw new Error('connection reset');
    if (way === 'death after') return die();
    return answer;
  }
  function die(): Promise<never> {
    isCut = true;
    died.open();
    return never;
  }
  return {
    log,
    died: died.opened,
    pass,
    arm: (at: number, way: Way) => void (fault = { at, way }),
    lift: () => void (fault = null),
    /** The k-th call was made: there may be a next one. */
    get hit() {
      return fault !== null && calls >= fault.at;
    },
    cut: () => void (isCut = true),
  };
}

type Wire = ReturnType<typeof createWire>;

/** What the calls are called in the log: enough to see the order of removals. */
function nameOf(verb: string, request: any): string {
  if (verb === 'move')
    return `move ${(request as MoveRequest).move.kind} ${(request as MoveRequest).filter.ids?.join(' ') ?? ''}`;
  return verb;
}

function storeThrough(store: Store, wire: Wire): StoreFactory {
  const wrapped: Record<string, unknown> = {};
  for (const verb of verbs) {
    const own = store[verb] as (...given: unknown[]) => Promise<unknown>;
    wrapped[verb] = (...args: unknown[]) => wire.pass(nameOf(verb, args[0]), () => own.apply(store, args));
  }
  const { engine, durability } = store;
  const through = { ...store, ...wrapped, engine, durability, close: async () => undefined } as Store;
  return { engine, open: async () => through };
}

function blobsThrough(blobs: BlobStore, wire: Wire): BlobStore {
  return {
    put: (id, chunks, options) => wire.pass(`put ${id}`, () => blobs.put(id, chunks, options)),
    async *read(id) {
      yield* blobs.read(id);
    },
    delete: (id) => wire.pass(`delete ${id}`, () => blobs.delete(id)),
    async *list(olderThanMs) {
      yield* await wire.pass('list', async () => blobs.list(olderThanMs));
    },
    used: () => wire.pass('used', () => blobs.used()),
  };
}

interface World {
  readonly clock: HandClock;
  readonly blobs: BlobStore;
  /** By a connection of its own: it sees what is there. */
  readonly observer: Store;
  /** A process, with a wire between it and everything else. */
  start(wire: Wire): Promise<Queue>;
}

const options: OpenOptions = { cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY } };

async function inWorld(engine: EngineName, play: (world: World) => Promise<void>): Promise<void> {
  await withStore(engine, async (connect) => {
    const clock = handClock();
    const blobs = memoryBlobs({ now: () => clock.at });
    const opened: Store[] = [];
    const connection = async (): Promise<Store> => {
      const store = await connect().open(contextFor(clock));
      opened.push(store);
      return store;
    };
    const wires: Wire[] = [];
    await play({
      clock,
      blobs,
      observer: await connection(),
      async start(wire) {
        wires.push(wire);
        const artifacts = { blobs: blobsThrough(blobs, wire) };
        const queue = await open(storeThrough(await connection(), wire), { ...options, clock, artifacts });
        await queue.stopPeriodicCleanup();
        return queue;
      },
    });
    for (const wire of wires) wire.cut();
    for (const store of opened) await store.close();
  });
}

/** Puts, overwrites, makes a folder, completes. */
const puts = defineJob<any, any>('puts', {
  attempts: 5,
  backoff: { type: 'fixed', base: 0 },
  async run({ artifact, tempDir }) {
    await tempDir();
    await artifact.put('a', 'first', { shortLink: true });
    await artifact.put('a', 'second');
    await artifact.put('b', 'third', { ttl: '1h' });
  },
});

/** Runs what is left of the job to its end, as long as that may take. */
async function finish(queue: Queue, world: World, id: string): Promise<void> {
  const worker = await queue.work([puts]);
  const deadline = performance.now() + 20_000;
  while (!(await world.observer.find({ filter: byId(id), cursor: null, limit: 1 })).jobs.every(isFinished)) {
    if (performance.now() > deadline) throw new Error('The job does not end');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await worker.stop();
}

const isFinished = ({ state }: { state: string }): boolean => state !== 'pending' && state !== 'processing';
const byId = (id: string) => ({
  ids: [id],
  states: null,
  types: null,
  queues: null,
  subject: null,
  key: null,
  source: null,
  ownedBy: null,
  before: null,
  after: null,
  system: true,
});

/** No job without what it owns: each live record has its owner, each confirmed one its bytes. */
async function judge({ observer, blobs }: World): Promise<void> {
  const rows = await allRows(observer);
  const ids = new Set(rows.map(({ id }) => id));
  const bytes = new Set(await idsIn(blobs));
  for (const { id, type, ownedBy } of rows) {
    if (ownedBy !== null && !ids.has(ownedBy)) throw new Error(`${type} ${id} has lost its owner ${ownedBy}`);
  }
  // Bytes without a record are only those whose record was never confirmed, and they are swept by their age.
  for (const id of bytes) if (!ids.has(id)) throw new Error(`The bytes of ${id} have lost their record`);
}

async function expectNothing({ observer, blobs }: World, what: string): Promise<void> {
  expect(
    (await allRows(observer)).map(({ type, state }) => `${type} ${state}`),
    what,
  ).toEqual([]);
  expect(await idsIn(blobs), what).toEqual([]);
  const { kinds } = await observer.read({ log: 'audit', cursor: null, limit: 1_000 });
  for (const [kind, { created, released, live, attention }] of Object.entries(kinds))
    expect([kind, released, live, attention], what).toEqual([kind, created, 0, []]);
}

describe('whatever call fails, in whatever way', () => {
  const ways: readonly Way[] = ['death before', 'death after', 'error before', 'error after', 'refusal'];

  eachStore((on) => {
    it.each(ways)('%s while a job puts: one sweep leaves nothing', { timeout: 240_000 }, async (way) => {
      let cells = 0;
      for (let at = 1, wasHit = true; wasHit; at++) {
        await inWorld(on.engine, async (world) => {
          const wire = createWire();
          const queue = await world.start(wire);
          const { id } = await queue.enqueue(puts, null);
          wire.arm(at, way);
          const finished = finish(queue, world, id).catch(() => undefined);
          await Promise.race([finished, wire.died]);
          wasHit = wire.hit;
          wire.lift();
          if (way.startsWith('death')) {
            world.clock.at += 31_000; // its claim has lapsed
            const other = await world.start(createWire());
            await other.sweep();
            world.clock.at += hour; // a job that killed a worker may wait a little
            await finish(other, world, id);
            world.clock.at += day + hour;
            await other.sweep();
          } else {
            await finished;
            world.clock.at += day + hour;
            await queue.sweep();
          }
          await expectNothing(world, `${way} at call ${at}`);
        });
        cells += 1;
      }
      expect(cells).toBeGreaterThan(15);
    });

    it.each(ways)('%s while a sweep removes: the next one leaves nothing', { timeout: 240_000 }, async (way) => {
      let cells = 0;
      for (let at = 1, wasHit = true; wasHit; at++) {
        await inWorld(on.engine, async (world) => {
          const wire = createWire();
          const queue = await world.start(wire);
          const { id } = await queue.enqueue(puts, null);
          await finish(queue, world, id);
          world.clock.at += day + hour;
          wire.arm(at, way);
          await Promise.race([queue.sweep().catch(() => undefined), wire.died]);
          wasHit = wire.hit;
          wire.lift();
          await judge(world);
          world.clock.at += 2 * hour; // the term of a dead one has lapsed, what was held for a while is free
          const next = way.startsWith('death') ? await world.start(createWire()) : queue;
          await next.sweep();
          await expectNothing(world, `${way} at call ${at}`);
        });
        cells += 1;
      }
      expect(cells).toBeGreaterThan(8);
    });

    it.each(ways)('%s while somebody removes a job by hand', { timeout: 240_000 }, async (way) => {
      let cells = 0;
      for (let at = 1, wasHit = true; wasHit; at++) {
        await inWorld(on.engine, async (world) => {
          const wire = createWire();
          const queue = await world.start(wire);
          const { id } = await queue.enqueue(puts, null);
          await finish(queue, world, id);
          wire.arm(at, way);
          await Promise.race([queue.remove(id).catch(() => undefined), wire.died]);
          wasHit = wire.hit;
          wire.lift();
          await judge(world);
          const next = way.startsWith('death') ? await world.start(createWire()) : queue;
          await next.remove(id);
          await expectNothing(world, `${way} at call ${at}`);
        });
        cells += 1;
      }
      expect(cells).toBeGreaterThan(4);
    });

    it('the order is: the bytes of each artifact, its record, the job', async () => {
      await inWorld(on.engine, async (world) => {
        const wire = createWire();
        const queue = await world.start(wire);
        const { id } = await queue.enqueue(puts, null);
        await finish(queue, world, id);
        const artifacts = (await queue.artifacts.list(id)).map((artifact) => artifact.id);
        expect(artifacts).toHaveLength(2);
        world.clock.at += day + 1;
        wire.log.length = 0;
        const rowsAt: { [call: string]: number } = {};
        await queue.sweep();
        for (const [index, call] of wire.log.entries()) rowsAt[call] ??= index;
        const removal = wire.log.findIndex((call) => call.startsWith('move remove'));
        const sweeps = wire.log.flatMap((call, index) => (call === 'sweep' ? index : []));
        for (const artifact of artifacts) {
          expect(rowsAt[`delete ${artifact}`]).toBeLessThan(recordRemoval(artifact));
          expect(recordRemoval(artifact)).toBeLessThan(sweeps[1]!);
        }
        expect(sweeps[0]).toBeLessThan(removal);
        expect(await queue.get(id)).toBeNull();

        function recordRemoval(artifact: string): number {
          const found = wire.log.findIndex((call) => call.startsWith('move remove') && call.includes(artifact));
          expect(found).toBeGreaterThan(-1);
          return found;
        }
      });
    });
  });
});
