// A connection remembers the jobs that it has claimed. Whatever others did to them since, their endings know it.
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Ending } from '../../src/core/ending.js';
import { type Claimed, noFilter, type Store } from '../../src/core/store.js';
import { claim, cleanupOf, ending } from '../../src/testing/store-cases/bench.js';
import { temporaryFolder } from '../support.js';
import { newJob, openStore, system } from './sqlite-support.js';

interface Held extends Claimed {
  /** The job that something happens to. */
  readonly id: string;
}

const acts: Readonly<Record<string, (store: Store, held: Held) => Promise<unknown>>> = {
  'asks to cancel it': (store, { id }) => move(store, id, { kind: 'cancel', reason: 'not needed', force: false }),
  'cancels it by force': (store, { id }) => move(store, id, { kind: 'cancel', reason: 'not needed', force: true }),
  'removes it by force': (store, { id }) => move(store, id, { kind: 'remove', force: true }),
  'marks it to run again': (store) =>
    store.insert([newJob({ key: 'k3', deduplication: 'coalesce' })], { atomic: false }),
  'notes progress of it': (store, { id, epoch }) =>
    store.note('worker-1', [{ id, epoch, progress: '{"percent":40}', lines: [{ message: 'on', fields: null }] }]),
  'ends it first': (store, { id, epoch }) => settle(store, [id], epoch, ending.complete()),
  'ends it otherwise first': (store, { id, epoch }) => settle(store, [id], epoch, ending.fail()),
  'hands it back': (store, { id, epoch }) => settle(store, [id], epoch, ending.release()),
  'hands it back and claims it again': async (store, { id, epoch }) => {
    await settle(store, [id], epoch, ending.release());
    await claim(store, { owner: 'worker-2' });
  },
};
const endings: Readonly<Record<string, Ending>> = {
  complete: ending.complete(),
  retry: ending.retry(0),
  fail: ending.fail(),
  snooze: ending.snooze(60_000),
  release: ending.release(),
};

describe.each(Object.keys(acts))('another connection %s', (act) => {
  test.each(Object.keys(endings))('before the claim says %s: it is as on one connection', async (how) => {
    for (const together of [1, 10]) {
      const alone = await play(acts[act]!, endings[how]!, together, false);
      expect(await play(acts[act]!, endings[how]!, together, true)).toEqual(alone);
      expect(alone.answers).toHaveLength(10);
    }
  });
});

test('a late ending that claims again in the same call gets what lapsed as it is now, and once', async () => {
  const file = join(temporaryFolder(), 'jobs.db');
  let now = 1_000_000;
  const at = { system: { ...system, now: () => now } };
  const [store, other] = [await openStore(file, at), await openStore(file, at)];
  const ids = ['a', 'b', 'c'];
  await store.insert(
    ids.map((id) => newJob({ id })),
    { atomic: true },
  );
  const { epoch } = await claim(store);
  now += 60_000;
  expect((await other.sweep({ limit: 100, cleanup: null })).lapsed).toBe(1);
  const next = { owner: 'worker-1', types: ['mail'], queues: null, slots: 2, ahead: 0, leaseMs: 30_000, maxStalls: 3 };
  const settlements = ids.map((id) => ({ id, epoch, ending: ending.complete() }));
  const { answers, claimed } = await store.settle({ owner: 'worker-1', settlements, started: [], next });
  expect(answers).toEqual(['STALE_CLAIM', 'STALE_CLAIM', 'STALE_CLAIM']);
  expect(claimed!.jobs).toMatchObject([
    { id: 'a', stalls: 1 },
    { id: 'b', stalls: 1 },
  ]);
  expect((await claim(other, { owner: 'worker-2' })).jobs.map(({ id }) => id)).toEqual(['c']);
  expect((await store.tally(cleanupOf())).queues).toMatchObject([{ pending: 0, processing: 3 }]);
  await other.close();
  await store.close();
});

/** Ten jobs are claimed, something is done to the fourth, and then all end, so many in one call. */
async function play(
  act: (store: Store, held: Held) => Promise<unknown>,
  how: Ending,
  together: number,
  apart: boolean,
) {
  const file = join(temporaryFolder(), 'jobs.db');
  const store = await openStore(file);
  const other = apart ? await openStore(file) : store;
  const ids = Array.from({ length: 10 }, (_, i) => `job${i}`);
  await store.insert(
    ids.map((id, i) => newJob({ id, ...(i === 3 && { key: 'k3' }) })),
    { atomic: true },
  );
  const claimed = await claim(store);
  await act(other, { ...claimed, id: 'job3' });
  const answers: unknown[] = [];
  for (let from = 0; from < 10; from += together)
    answers.push(...(await settle(store, ids.slice(from, from + together), claimed.epoch, how)).answers);
  const { jobs } = await store.find({ filter: noFilter, cursor: null, limit: 100 });
  const { queues } = await store.tally(cleanupOf());
  const { events } = await store.readEvents({ after: '1.0', limit: 1_000 });
  if (apart) await other.close();
  await store.close();
  return {
    answers,
    jobs: jobs.map(({ id, state, attempts, stalls, result, error, progress, cancelReason, epoch }) => {
      return {
        id: /^job/.test(id) ? id : 'new',
        state,
        attempts,
        stalls,
        result,
        error,
        progress,
        cancelReason,
        claims: epoch > claimed.epoch ? 2 : Number(epoch === claimed.epoch),
      };
    }),
    queues: queues.map((queue) => ({ ...queue, oldestDueAgeMs: null })),
    events: events.map(({ name, id, attempt }) => [name, id?.startsWith('job') ? id : 'new', attempt]),
  };
}

function move(store: Store, id: string, move: Parameters<Store['move']>[0]['move']) {
  return store.move({ filter: { ...noFilter, ids: [id] }, move, dryRun: false, cursor: null, limit: 10 });
}

function settle(store: Store, ids: readonly string[], epoch: number, how: Ending) {
  const settlements = ids.map((id) => ({ id, epoch, ending: how }));
  return store.settle({ owner: 'worker-1', settlements, started: [], next: null });
}
