import { describe, expect, it } from 'vitest';
import { LastoutError } from '../src/core/errors.js';
import type { Inserted, NewJob, Store } from '../src/core/store.js';
import { gatherer } from '../src/queue/gather.js';

const logger = { debug() {}, info() {}, warn() {}, error() {} };
const job = (n: number): NewJob => ({ id: String(n), type: 'job' }) as NewJob;
const jobs = (from: number, to: number): NewJob[] => Array.from({ length: to - from }, (_, n) => job(from + n));
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A store whose answers come when the test says so. */
function slowStore(engine: Store['engine']) {
  const batches: { ids: string[]; atomic: boolean; answer(): Promise<void>; fail(error: Error): Promise<void> }[] = [];
  const store = {
    engine,
    traits: { isVolatile: false, insertsAbreast: engine === 'redis' ? 2 : 1, leastSweep: 50 },
    insert: (sent: readonly NewJob[], { atomic }: { atomic: boolean }) =>
      new Promise<readonly Inserted[]>((resolve, reject) => {
        const ids = sent.map(({ id }) => id);
        const created = ids.map((id): Inserted => ({ id, outcome: 'created' }));
        batches.push({
          ids,
          atomic,
          answer: () => (resolve(created), turn()),
          fail: (error) => (reject(error), turn()),
        });
      }),
  } as unknown as Store;
  return { store, batches, sizes: () => batches.map(({ ids }) => ids.length) };
}

describe('calls to a server that answers in the order of the questions', () => {
  it('go in two halves, in the order of the calls', async () => {
    const { store, batches, sizes } = slowStore('redis');
    const { add } = gatherer(store, logger);
    const all = Promise.all(jobs(0, 100).map(add));
    await turn();
    expect(sizes()).toEqual([50, 50]);
    await batches[0]!.answer();
    await batches[1]!.answer();
    expect((await all).map(({ id }) => id)).toEqual(batches.flatMap(({ ids }) => ids));
    expect(batches.flatMap(({ ids }) => ids)).toEqual(jobs(0, 100).map(({ id }) => id));
  });

  it('are never more than two batches under way', async () => {
    const { store, batches, sizes } = slowStore('redis');
    const { add } = gatherer(store, logger);
    const all = Promise.all(jobs(0, 5_000).map(add));
    await turn();
    expect(sizes()).toEqual([1_000, 1_000]);
    await batches[1]!.answer();
    expect(sizes()).toEqual([1_000, 1_000, 1_000]);
    for (let n = 0; n < batches.length; n += 1) await batches[n]!.answer();
    await all;
    expect(batches.flatMap(({ ids }) => ids)).toEqual(jobs(0, 5_000).map(({ id }) => id));
  });

  it.each([
    [100, [50, 50, 50, 50, 50, 50]],
    [33, [17, 16, 17, 16, 17, 16]],
    [31, [31, 31, 31, 31, 31]],
    [1, [1, 1, 1, 1, 1]],
  ])('of %i callers who await theirs and call again come as %j', async (callers, expected) => {
    const { store, batches, sizes } = slowStore('redis');
    const { add } = gatherer(store, logger);
    for (let caller = 0; caller < callers; caller += 1) {
      void (async () => {
        for (let n = 0; ; n += 1) await add(job(caller * 1_000 + n));
      })();
    }
    await turn();
    for (let round = 0; round < 4; round += 1) await batches[round]!.answer();
    expect(sizes()).toEqual(expected);
  });

  it('become halves again after one caller was alone with its batch', async () => {
    const { store, batches, sizes } = slowStore('redis');
    const { add } = gatherer(store, logger);
    const again = async (n: number): Promise<void> => {
      for (;;) await add(job(n));
    };
    void again(0);
    await turn();
    for (let caller = 1; caller < 100; caller += 1) void again(caller);
    await turn();
    for (let round = 0; round < 4; round += 1) await batches[round]!.answer();
    expect(sizes()).toEqual([1, 50, 50, 50, 50, 50]);
  });

  it('become halves again after some had to wait, also where two batches are answered in one turn', async () => {
    const { store, batches, sizes } = slowStore('redis');
    const { add } = gatherer(store, logger);
    const again = async (): Promise<void> => {
      for (;;) {
        await add(job(0));
        for (let hop = 0; hop < 3; hop += 1) await Promise.resolve(); // as the layers between a caller and its batch
      }
    };
    for (const callers of [31, 31, 38]) {
      for (let caller = 0; caller < callers; caller += 1) void again();
      await turn();
    }
    expect(sizes()).toEqual([31, 31]);
    for (let round = 0; round < 10; round += 2)
      await Promise.all([batches[round]!.answer(), batches[round + 1]!.answer()]);
    expect(sizes().slice(-4)).toEqual([50, 50, 50, 50]);
  });

  it('of which nobody knows whether they arrived are looked for in their order, and the next ones wait', async () => {
    const { store, batches, sizes } = slowStore('redis');
    const looked: string[][] = [];
    const found = (ids: readonly string[]): unknown => ({ jobs: ids.map((id) => ({ id })), next: null });
    let answerFirst = (): void => undefined;
    Object.assign(store, {
      find: ({ filter: { ids } }: { filter: { ids: string[] } }) => {
        looked.push(ids);
        if (looked.length > 1) return Promise.resolve(found(ids));
        return new Promise((resolve) => (answerFirst = () => resolve(found(ids))));
      },
    });
    const { add } = gatherer(store, logger);
    const all = Promise.all(jobs(0, 100).map(add));
    await turn();
    const lost = new LastoutError('RESULT_UNKNOWN', 'The answer was lost.');
    await batches[0]!.fail(lost);
    await batches[1]!.fail(lost);
    const later = add(job(100));
    await turn();
    expect(sizes()).toEqual([50, 50]);
    expect(looked).toEqual([batches[0]!.ids]);
    answerFirst();
    expect(await all).toHaveLength(100);
    await turn();
    expect(looked).toEqual([batches[0]!.ids, batches[1]!.ids]);
    await batches[2]!.answer();
    expect((await later).id).toBe('100');
  });

  it('that are one list stay whole, in their turn', async () => {
    const { store, batches } = slowStore('redis');
    const { add, addAll } = gatherer(store, logger);
    const all = [...jobs(0, 40).map(add), addAll(jobs(40, 140)), ...jobs(140, 180).map(add)];
    await turn();
    for (let n = 0; n < batches.length; n += 1) await batches[n]!.answer();
    await Promise.all(all);
    expect(batches.map(({ ids, atomic }) => [ids.length, atomic])).toEqual([
      [40, false],
      [100, true],
      [40, false],
    ]);
    expect(batches.flatMap(({ ids }) => ids)).toEqual(jobs(0, 180).map(({ id }) => id));
  });

  it('fail by halves: only the callers of that one, and the others go on', async () => {
    const { store, batches } = slowStore('redis');
    const { add, settled } = gatherer(store, logger);
    const all = Promise.allSettled(jobs(0, 100).map(add));
    await turn();
    await batches[0]!.fail(new LastoutError('STORE_FULL', 'No room.'));
    let isSettled = false;
    void settled().then(() => (isSettled = true));
    await turn();
    expect(isSettled).toBe(false);
    await batches[1]!.answer();
    expect(isSettled).toBe(true);
    expect((await all).map(({ status }) => status)).toEqual([
      ...Array<string>(50).fill('rejected'),
      ...Array<string>(50).fill('fulfilled'),
    ]);
  });
});

it.each(['memory', 'sqlite', 'postgres'] as const)('calls to %s share one batch', async (engine) => {
  const { store, batches, sizes } = slowStore(engine);
  const { add } = gatherer(store, logger);
  const all = Promise.all(jobs(0, 100).map(add));
  await turn();
  expect(sizes()).toEqual([100]);
  await batches[0]!.answer();
  expect(await all).toHaveLength(100);
});
