// The stores against the model: random sequences of acts, and after each of them everything that can be seen is compared.
// A failure prints its seed, path and replayPath; LASTOUT_SEED, LASTOUT_PATH and LASTOUT_REPLAY run it again, LASTOUT_RUNS
// runs more.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { engines, type EngineName } from '../engines.js';
import { harnessOf } from './harness.js';
import { firstActs, kindsOfActs, numberOfKinds } from './model/commands.js';
import type { Real } from './model/compare.js';
import { Model } from './model/model.js';

const seed = Number(process.env.LASTOUT_SEED ?? 20_300_101);
/** Fewer where every call is a round trip: what they would find costs the others a tenth. */
const runs: { readonly [engine in EngineName]: number } = { memory: 1_000, sqlite: 400, postgres: 100, redis: 150 };
const path = process.env.LASTOUT_PATH;
const replayPath = process.env.LASTOUT_REPLAY;

type Acts = Iterable<fc.AsyncCommand<Model, Real>>;

async function sequence(engine: EngineName, acts: Acts, counts: Real['counts']): Promise<void> {
  const harness = await harnessOf(engine);
  const { cursor } = await harness.store.readEvents({ after: null, limit: 1 });
  const real: Real = { harness, cursor, seen: [], lastEpoch: 0, counts };
  const partedUntil = (id: string): number => real.seen.find((job) => job.id === id)?.scheduledFor ?? Number.NaN;
  const model = new Model(harness.now(), partedUntil);
  try {
    await fc.asyncModelRun(() => ({ model, real }), acts);
    await drain(real, [...model.limits.keys()]);
  } finally {
    await harness.dispose();
  }
}

/** Whatever happened: once somebody works everything off, nothing is left. */
async function drain({ harness: { store, advance, open } }: Real, limited: readonly string[]): Promise<void> {
  await store.pause(null, false);
  if (limited.length > 0) await open(new Map(limited.map((queue) => [queue, unlimited])));
  const request = {
    owner: 'last',
    types: ['a', 'b', 's'],
    queues: null,
    slots: 100,
    ahead: 0,
    leaseMs: 60,
    maxStalls: 1,
  };
  for (let round = 0; round < 100; round++) {
    advance(31_000);
    const { jobs, epoch } = await store.claim(request);
    const settlements = jobs.map(({ id }) => ({ id, epoch, ending: { kind: 'complete', result: 'null' } as const }));
    await store.settle({ owner: 'last', settlements, started: [], next: null });
    const { queues } = await store.tally(retention);
    if (queues.every(({ pending, processing }) => pending + processing === 0)) return;
  }
  assert.fail('something is left that nobody can claim');
}

const unlimited = { maxPending: null, concurrency: null, rate: null };
const retention = { maxStoredJobs: 1_000, jobRetentionMs: 1, cleanupIntervalMs: 1, useCompletedTime: true };

async function agree(engine: EngineName): Promise<void> {
  const numRuns = Number(process.env.LASTOUT_RUNS ?? runs[engine]);
  let sequences = 0;
  const counts: Real['counts'] = new Map();
  const commands = fc.commands(kindsOfActs, {
    maxCommands: 50,
    size: 'max',
    ...(replayPath !== undefined && { replayPath }),
  });
  await fc.assert(
    fc.asyncProperty(firstActs, commands, async (first, then) => {
      sequences += 1;
      await sequence(engine, [...first, ...then], counts);
    }),
    { seed, numRuns, ...(path !== undefined && { path }) },
  );
  const told = [...counts].map(([what, n]) => `${n} ${what}`).toSorted();
  console.log(
    `model: ${sequences} sequences of ${numberOfKinds} kinds of acts on ${engine}, seed ${seed}: ${told.join(', ')}`,
  );
  expect(sequences).toBeGreaterThanOrEqual(path === undefined ? numRuns : 1);
}

describe('model', () => {
  it.each(engines)('%s does what the model does', { timeout: 600_000 }, agree);
  it('has at least 35 kinds of acts', () => expect(numberOfKinds).toBeGreaterThanOrEqual(35));
});
