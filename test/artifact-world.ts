/**
 * A store, blobs and processes between which wires run: the k-th call over a wire can be spoilt, or be the last one of its
 * process. What really went is recorded, whoever took it away.
 */
import { expect } from 'vitest';
import { memoryBlobs } from '../src/artifacts/memory.js';
import { readArtifact } from '../src/artifacts/records.js';
import type { BlobStore } from '../src/core/blobs.js';
import {
  type Moved,
  type MoveRequest,
  noFilter,
  type Store,
  type StoreFactory,
  type Swept,
} from '../src/core/store.js';
import { type JobType, LastoutError, open, type OpenOptions, type Queue } from '../src/index.js';
import { type EngineName, withStore } from './engines.js';
import { allRows, contextFor, handClock, type HandClock, idsIn } from './lifecycle-support.js';
import { gate, temporaryFolder } from './support.js';
import { verbs } from './verbs.js';

export type Way = 'death before' | 'death after' | 'error before' | 'error after' | 'refusal';

/** What a client makes of an error is the same on every engine: the networked ones, where a call costs more, have fewer. */
export function waysOn(engine: EngineName): readonly Way[] {
  const isNear = engine === 'memory' || engine === 'sqlite';
  return isNear
    ? ['death before', 'death after', 'error before', 'error after', 'refusal']
    : ['death before', 'death after', 'error after'];
}

export const isDeath = (way: Way): boolean => way.startsWith('death');

/** Counts the calls of one process from the moment it is armed, and spoils the k-th. */
export function createWire() {
  let fault: { at: number; way: Way } | null = null;
  let calls = 0;
  let isCut = false;
  const died = gate();
  const never = new Promise<never>(() => undefined);

  /** `seen`: it has happened, whether or not the caller is told. */
  async function pass<T>(call: () => Promise<T>, seen: (answer: T) => void = () => undefined): Promise<T> {
    if (isCut) return never;
    const way = fault !== null && ++calls === fault.at ? fault.way : null;
    if (way === 'refusal') throw new LastoutError('STORE_UNAVAILABLE', 'Locked; nothing was done.');
    if (way === 'error before') throw new Error('connection reset');
    if (way === 'death before') return die();
    const answer = await call();
    seen(answer);
    if (isCut) return never;
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

export type Wire = ReturnType<typeof createWire>;

/** What happened to which id, in order. A sweep does not say which job it removed: the one there is. */
export type Happened = readonly ['put' | 'bytes' | 'removed', string] | readonly ['job'];

export interface World {
  readonly clock: HandClock;
  readonly blobs: BlobStore;
  /** By a connection of its own: it sees what is there. */
  readonly observer: Store;
  /** Since the last look at nothing. */
  readonly happened: Happened[];
  /** While the bytes of an artifact are on their way. */
  whilePutting: () => Promise<void>;
  /** A process, with a wire between it and everything else. */
  start(wire: Wire, cleanup?: OpenOptions['cleanup']): Promise<Queue>;
}

/** One store for all that is played: each cell leaves it as if it were new. */
export async function inWorld(engine: EngineName, play: (world: World) => Promise<void>): Promise<void> {
  // The folders that a dead process leaves in the system's place for them.
  const usual = process.env.TMPDIR;
  process.env.TMPDIR = temporaryFolder();
  try {
    await withStore(engine, async (connect) => {
      const clock = handClock();
      const blobs = memoryBlobs({ now: () => clock.at });
      const [observer, shared] = [await connect().open(contextFor(clock)), await connect().open(contextFor(clock))];
      const wires: Wire[] = [];
      const happened: Happened[] = [];
      const world: World = {
        clock,
        blobs,
        observer,
        happened,
        whilePutting: async () => undefined,
        async start(wire, cleanup = { maxStoredJobs: Number.POSITIVE_INFINITY }) {
          wires.push(wire);
          const artifacts = { blobs: blobsThrough(world, wire) };
          const queue = await open(storeThrough(shared, world, wire), { cleanup, clock, artifacts });
          await queue.stopPeriodicCleanup();
          return queue;
        },
      };
      try {
        await play(world);
      } finally {
        for (const wire of wires) wire.cut();
        for (const store of [observer, shared]) await store.close();
      }
    });
  } finally {
    if (usual === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = usual;
  }
}

function storeThrough(store: Store, { happened }: World, wire: Wire): StoreFactory {
  const wrapped: Record<string, unknown> = {};
  for (const verb of verbs) {
    const own = store[verb] as (...given: unknown[]) => Promise<unknown>;
    wrapped[verb] = (...args: unknown[]) =>
      wire.pass(
        () => own.apply(store, args),
        (answer) => {
          if (verb === 'move' && (args[0] as MoveRequest).move.kind === 'remove')
            for (const { id, outcome } of (answer as Moved).items)
              if (outcome === 'removed') happened.push(['removed', id]);
          if (
            (verb === 'sweep' || verb === 'sweepInTerm') &&
            Object.values((answer as Swept).removedBy).some((n) => n > 0)
          )
            happened.push(['job']);
        },
      );
  }
  const { engine, durability } = store;
  const through = { ...store, ...wrapped, durability, close: async () => undefined } as Store;
  return { engine, open: async () => through };
}

function blobsThrough(world: World, wire: Wire): BlobStore {
  const { blobs, happened } = world;
  return {
    async put(id, chunks, options) {
      const info = await wire.pass(
        () => blobs.put(id, chunks, options),
        () => void happened.push(['put', id]),
      );
      await world.whilePutting();
      return info;
    },
    async *read(id) {
      yield* blobs.read(id);
    },
    delete: (id) =>
      wire.pass(
        () => blobs.delete(id),
        () => void happened.push(['bytes', id]),
      ),
    async *list(olderThanMs) {
      yield* await wire.pass(async () => blobs.list(olderThanMs));
    },
    used: () => wire.pass(() => blobs.used()),
  };
}

/** Runs what is left of the job to its end, as long as that may take. */
export async function finish(
  queue: Queue,
  world: World,
  type: JobType<any, any>,
  id: string,
  poll = 1_000,
): Promise<void> {
  const worker = await queue.work([type], { poll });
  const deadline = performance.now() + 30_000;
  for (;;) {
    const { jobs } = await world.observer.find({ filter: { ...noFilter, ids: [id] }, cursor: null, limit: 1 });
    const [job] = jobs;
    if (job && job.state !== 'pending' && job.state !== 'processing') break;
    if (job?.state === 'pending' && job.dueAt! > world.clock.at) world.clock.at = job.dueAt!; // it waits after a stall
    if (performance.now() > deadline) throw new Error(`The job does not end: ${JSON.stringify(job)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  await worker.stop();
}

/** No job without what it owns: each live record has its owner, what is shown its bytes, and no bytes are without a record. */
export async function judge({ observer, blobs, clock }: World): Promise<void> {
  const rows = await allRows(observer);
  const ids = new Set(rows.map(({ id }) => id));
  for (const { id, type, ownedBy } of rows)
    if (ownedBy !== null && !ids.has(ownedBy)) throw new Error(`${type} ${id} has lost its owner ${ownedBy}`);
  const stored = new Set(await idsIn(blobs));
  for (const row of rows)
    if (readArtifact(row, clock.at) && !stored.has(row.id)) throw new Error(`Artifact ${row.id} has lost its bytes`);
  for (const id of stored) if (!ids.has(id)) throw new Error(`The bytes of ${id} have lost their record`);
}

/** Nothing is left of job `id`, and it went in order: the bytes of each artifact, its record, and last of all the job. */
export async function expectNothing(world: World, id: string, what: string): Promise<void> {
  const { observer, blobs, happened } = world;
  expect(
    (await allRows(observer)).map(({ type, state }) => `${type} ${state}`),
    what,
  ).toEqual([]);
  expect(await idsIn(blobs), what).toEqual([]);
  const { kinds } = await observer.readAudit({ cursor: null, limit: 1_000 });
  for (const [kind, { created, released, live, attention }] of Object.entries(kinds))
    expect([kind, released, live, attention], what).toEqual([kind, created, 0, []]);
  expectOrder(happened, id, what);
  happened.length = 0;
}

export function expectOrder(happened: readonly Happened[], id: string, what: string): void {
  const first = (kind: Happened[0], of?: string): number =>
    happened.findIndex((one) => one[0] === kind && (of === undefined || one[1] === of));
  const story = `${what}: ${happened.map((one) => one.join(' ')).join(', ')}`;
  const job = Math.max(first('job'), first('removed', id));
  expect(job, story).toBe(happened.length - 1);
  for (const one of happened) {
    if (one[0] !== 'put') continue;
    expect(first('bytes', one[1]), story).toBeGreaterThan(-1);
    expect(first('removed', one[1]), story).toBeGreaterThan(first('bytes', one[1]));
    expect(first('removed', one[1]), story).toBeLessThan(job);
  }
}
