import { readFile } from 'node:fs/promises';
import { defineJob, deduplicationStrategies, type Job, type JobOptions, type JobType, open, type Queue } from 'lastout';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { Handshake } from '../src/handshake.js';
import { active, openQueue, recordingLogger, states, stores, storeUrl } from './support.js';

const skip: JobOptions = { deduplication: 'skip' };
const replace: JobOptions = { deduplication: 'replace' };
const coalesce: JobOptions = { deduplication: 'coalesce' };

/** A build that stands at its door until the test releases it. */
function heldBuild(): { build: JobType<object, null>; door: Handshake; runs: string[] } {
  const door = new Handshake();
  const runs: string[] = [];
  const build = defineJob<object, null>('build', {
    run: async ({ job }) => {
      runs.push(job.id);
      await door.pass();
      return null;
    },
  });
  return { build, door, runs };
}

/** Enqueues one build and returns when its handler runs. */
async function processing(
  queue: Queue,
  build: JobType<object, null>,
  door: Handshake,
  options = skip,
): Promise<string> {
  const { id } = await queue.enqueue(build, {}, options);
  await queue.work([build], { concurrency: 1 });
  await door.arrived;
  return id;
}

async function get(queue: Queue, id: string): Promise<Job> {
  const job = await queue.get(id);
  if (!job) throw new Error(`There is no job ${id}`);
  return job;
}

for (const store of stores) {
  test(`001-01 the strategies are none, skip, replace and coalesce, and no other is taken (${store})`, async () => {
    expect(deduplicationStrategies).toEqual(['none', 'skip', 'replace', 'coalesce']);
    const queue = await openQueue(store);
    for (const deduplication of deduplicationStrategies) {
      expect(await queue.enqueue(`type-${deduplication}`, {}, { deduplication })).toMatchObject({ outcome: 'created' });
    }
    for (const wrong of ['latest', 'SKIP', '', 1, null, {}]) {
      const options = { deduplication: wrong } as unknown as JobOptions;
      await expect(queue.enqueue('wrong', {}, options)).rejects.toMatchObject({ code: 'INVALID_DEDUPLICATION' });
    }
    expect(await active(queue, 'wrong')).toEqual([]);
  });

  test(`001-02 deduplication and deduplicationKey are optional, alone and together (${store})`, async () => {
    const queue = await openQueue(store);
    const given: (JobOptions | undefined)[] = [
      undefined,
      {},
      { deduplication: 'skip' },
      { deduplicationKey: 'a' },
      { deduplication: 'skip', deduplicationKey: 'a' },
    ];
    const keys: (string | null)[] = [];
    for (const [n, options] of given.entries()) {
      const { id, outcome } = await queue.enqueue(`type-${n}`, {}, options);
      expect(outcome).toBe('created');
      keys.push((await get(queue, id)).deduplicationKey);
    }
    expect(keys).toEqual([null, null, null, 'a', 'a']);
  });

  test(`001-03 001-04 without the option every call inserts, before and after it was in use (${store})`, async () => {
    const queue = await openQueue(store);
    const options = { priority: 0, source: 'site-builder', deduplication: 'skip' } as const;
    const { deduplication, ...before } = options;

    const first = await queue.enqueue('build', {}, before);
    const second = await queue.enqueue('build', {}, before);
    expect([first.outcome, second.outcome]).toEqual(['created', 'created']);
    // Opted in ...
    expect((await queue.enqueue('build', {}, { ...before, deduplication })).outcome).toBe('skipped');
    // ... and rolled back by removing the parameter.
    const third = await queue.enqueue('build', {}, before);
    expect(third.outcome).toBe('created');
    expect(new Set([first.id, second.id, third.id]).size).toBe(3);
    expect(await active(queue, 'build')).toHaveLength(3);
  });

  test(`001-05 none: two enqueues are two jobs (${store})`, async () => {
    const queue = await openQueue(store);
    const first = await queue.enqueue('build', {}, { deduplication: 'none' });
    const second = await queue.enqueue('build', {}, { deduplication: 'none' });
    expect(first.id).not.toBe(second.id);
    expect(await active(queue, 'build')).toHaveLength(2);
  });

  test(`001-06 skip with a PENDING job returns its id (${store})`, async () => {
    const queue = await openQueue(store);
    const first = await queue.enqueue('build', {}, skip);
    const second = await queue.enqueue('build', {}, skip);
    expect(second).toMatchObject({ id: first.id, outcome: 'skipped' });
    expect(states(await active(queue, 'build'))).toEqual({ [first.id]: 'pending' });
  });

  test(`001-07 001-18 skip with only a PROCESSING job lets a new one in (${store})`, async () => {
    const queue = await openQueue(store);
    const { build, door } = heldBuild();
    const running = await processing(queue, build, door);

    const next = await queue.enqueue(build, {}, skip);
    expect(next.outcome).toBe('created');
    expect(states(await active(queue, 'build'))).toEqual({ [running]: 'processing', [next.id]: 'pending' });

    door.release();
    expect((await queue.wait(next.id)).state).toBe('completed');
  });

  test(`001-08 skip with a PROCESSING and a PENDING job returns the pending id (${store})`, async () => {
    const queue = await openQueue(store);
    const { build, door } = heldBuild();
    const running = await processing(queue, build, door);
    const waiting = await queue.enqueue(build, {}, skip);

    const third = await queue.enqueue(build, {}, skip);
    expect(third).toMatchObject({ id: waiting.id, outcome: 'skipped' });
    expect(states(await active(queue, 'build'))).toEqual({ [running]: 'processing', [waiting.id]: 'pending' });
    door.release();
  });

  test(`001-09 different keys coexist, an equal key skips (${store})`, async () => {
    const queue = await openQueue(store);
    const enqueue = (deduplicationKey: string) => queue.enqueue('build', {}, { ...skip, deduplicationKey });
    const preview = await enqueue('preview');
    const production = await enqueue('production');
    const third = await enqueue('preview');
    expect(production.outcome).toBe('created');
    expect(third).toMatchObject({ id: preview.id, outcome: 'skipped' });
    expect(await active(queue, 'build')).toHaveLength(2);
  });

  test(`001-10 replace ends the old job as failed and inserts the new one (${store})`, async () => {
    const queue = await openQueue(store);
    const old = await queue.enqueue('build', { n: 1 }, replace);
    const replacement = await queue.enqueue('build', { n: 2 }, replace);
    expect(replacement).toMatchObject({ outcome: 'replaced', replaced: old.id });
    const ended = await get(queue, old.id);
    expect(ended).toMatchObject({ state: 'failed', error: { message: 'Replaced by newer job' } });
    // Without it retention would never see the replaced job.
    expect(ended.completedAt).toBeInstanceOf(Date);
    expect(await active(queue, 'build')).toMatchObject([{ id: replacement.id, state: 'pending', input: { n: 2 } }]);
  });

  test(`001-11 coalesce moves the scheduled time to now and returns the same id (${store})`, async () => {
    const start = Date.parse('2026-01-01T00:00:00Z');
    let now = start;
    const queue = await openQueue(store, { clock: { now: () => new Date(now) } });
    const first = await queue.enqueue('build', { n: 1 }, { ...coalesce, delay: '10m' });
    expect((await get(queue, first.id)).scheduledFor).toEqual(new Date(start + 600_000));

    now += 5_000;
    const second = await queue.enqueue('build', { n: 2 }, coalesce);
    expect(second).toMatchObject({ id: first.id, outcome: 'coalesced' });
    // Pulled forward, and the input that was stored first stays.
    expect(await active(queue, 'build')).toMatchObject([
      { id: first.id, scheduledFor: new Date(start + 5_000), input: { n: 1 } },
    ]);
  });

  test(`001-12 job types do not affect each other (${store})`, async () => {
    const queue = await openQueue(store);
    const site = await queue.enqueue('site-build', {}, { ...skip, deduplicationKey: 'a' });
    for (const options of [skip, replace, coalesce]) {
      const other = await queue.enqueue(`other-${options.deduplication}`, {}, { ...options, deduplicationKey: 'a' });
      expect(other.outcome).toBe('created');
    }
    expect(await get(queue, site.id)).toMatchObject({ state: 'pending' });
    expect(await active(queue)).toHaveLength(4);
  });

  test(`001-13 none, or no strategy, looks for no duplicate (${store})`, async () => {
    const { logger, lines } = recordingLogger();
    const queue = await openQueue(store, { logger });
    const first = await queue.enqueue('build', {}, { ...skip, deduplicationKey: 'a' });
    const before = await get(queue, first.id);
    lines.length = 0;
    // A key alone is no strategy.
    for (const options of [
      undefined,
      { deduplicationKey: 'a' },
      { deduplication: 'none', deduplicationKey: 'a' },
    ] as const) {
      expect((await queue.enqueue('build', {}, options)).outcome).toBe('created');
    }
    expect(await get(queue, first.id)).toEqual(before);
    expect(lines.filter((line) => line.message === 'Skipping duplicate job')).toEqual([]);
    expect(await active(queue, 'build')).toHaveLength(4);
  });

  test(`001-14 completed, failed and cancelled jobs never match, nor do other types (${store})`, async () => {
    const queue = await openQueue(store);
    const ends = defineJob<{ how: string }, string>('build', {
      attempts: 1,
      run: ({ input }) => {
        if (input.how === 'fail') throw new Error('on purpose');
        return 'done';
      },
    });
    const worker = await queue.work([ends]);
    const completed = await queue.wait((await queue.enqueue(ends, { how: 'complete' })).id);
    const failed = await queue.wait((await queue.enqueue(ends, { how: 'fail' })).id);
    await worker.stop();
    const cancelled = await queue.enqueue('build', {});
    await queue.cancel(cancelled.id);
    await queue.enqueue('other', {});

    const finished = [completed.id, failed.id, cancelled.id];
    expect(await Promise.all(finished.map(async (id) => (await get(queue, id)).state))).toEqual([
      'completed',
      'failed',
      'cancelled',
    ]);
    for (const options of [skip, replace, coalesce]) {
      const next = await queue.enqueue('build', {}, options);
      expect(next.outcome).toBe('created');
      expect(finished).not.toContain(next.id);
      await queue.cancel(next.id);
    }
    expect(await active(queue)).toMatchObject([{ type: 'other' }]);
  });

  test(`001-15 with a key equal keys match, without one the whole type (${store})`, async () => {
    const queue = await openQueue(store);
    const keyed = await queue.enqueue('build', {}, { ...skip, deduplicationKey: 'a' });
    expect((await queue.enqueue('build', {}, { ...skip, deduplicationKey: 'b' })).outcome).toBe('created');
    expect(await queue.enqueue('build', {}, { ...skip, deduplicationKey: 'a' })).toMatchObject({ id: keyed.id });

    const unkeyed = await queue.enqueue('build', {}, skip);
    expect(unkeyed.outcome).toBe('skipped');
    // An empty key is no key.
    expect((await queue.enqueue('build', {}, { ...skip, deduplicationKey: '' })).outcome).toBe('skipped');

    // A job that came without any strategy matches too.
    const plain = await queue.enqueue('plain', {});
    expect(await queue.enqueue('plain', {}, skip)).toMatchObject({ id: plain.id, outcome: 'skipped' });
  });

  test(`001-17 without a match every strategy enqueues normally (${store})`, async () => {
    const queue = await openQueue(store);
    for (const deduplication of deduplicationStrategies) {
      const { id, outcome } = await queue.enqueue(deduplication, { n: 1 }, { deduplication, deduplicationKey: 'a' });
      expect(outcome).toBe('created');
      expect(await get(queue, id)).toMatchObject({ state: 'pending', input: { n: 1 }, deduplicationKey: 'a' });
    }
  });

  test(`001-19 replace leaves a running job alone and lets one successor in (${store})`, async () => {
    const queue = await openQueue(store);
    const { build, door } = heldBuild();
    const running = await processing(queue, build, door, replace);
    const second = await queue.enqueue(build, {}, replace);
    const third = await queue.enqueue(build, {}, replace);

    expect(second.outcome).toBe('created');
    expect(third).toMatchObject({ outcome: 'replaced', replaced: second.id });
    expect(states(await active(queue, 'build'))).toEqual({ [running]: 'processing', [third.id]: 'pending' });
    door.release();
    expect((await queue.wait(running)).state).toBe('completed');
    expect((await queue.wait(third.id)).state).toBe('completed');
  });

  test(`001-19 coalesce on a running job runs it once more (${store})`, async () => {
    const queue = await openQueue(store);
    const { build, door, runs } = heldBuild();
    const running = await processing(queue, build, door, coalesce);
    for (let i = 0; i < 3; i++) {
      expect(await queue.enqueue(build, {}, coalesce)).toMatchObject({ id: running, outcome: 'coalesced' });
    }
    expect(await active(queue, 'build')).toHaveLength(1);
    door.release();
    expect((await queue.wait(running)).state).toBe('completed');
    expect(runs).toEqual([running, running]);
  });

  test(`001-20 the input is validated before duplicates are looked for (${store})`, async () => {
    const queue = await openQueue(store);
    const build = defineJob('build', { input: z.object({ site: z.string() }) });
    await queue.enqueue(build, { site: 'docs' }, skip);
    const wrong = { site: 7 } as unknown as { site: string };
    for (const options of [skip, replace, coalesce]) {
      await expect(queue.enqueue(build, wrong, options)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    }
    expect(await active(queue, 'build')).toMatchObject([{ state: 'pending', input: { site: 'docs' } }]);
  });

  test(`001-21 skip logs the type and the id that it found (${store})`, async () => {
    const { logger, lines } = recordingLogger();
    const queue = await openQueue(store, { logger });
    const { id } = await queue.enqueue('build', {}, skip);
    const skips = () => lines.filter((line) => line.message === 'Skipping duplicate job');
    expect(skips()).toEqual([]);
    await queue.enqueue('build', {}, skip);
    expect(skips()).toMatchObject([{ level: 'debug', fields: { type: 'build', existingJobId: id } }]);
  });

  test(`001-22 coalesce inserts nothing, replace inserts (${store})`, async () => {
    const queue = await openQueue(store);
    const stored = async (type: string) => (await queue.find({ type })).items.length;
    await queue.enqueue('coalesced', {}, coalesce);
    await queue.enqueue('coalesced', {}, coalesce);
    expect(await stored('coalesced')).toBe(1);
    await queue.enqueue('replaced', {}, replace);
    await queue.enqueue('replaced', {}, replace);
    expect(await stored('replaced')).toBe(2);
    expect(await active(queue, 'replaced')).toHaveLength(1);
  });

  test(`001-23 of 25 concurrent skips exactly one inserts (${store})`, async () => {
    const queue = await openQueue(store);
    const answers = await Promise.all(Array.from({ length: 25 }, () => queue.enqueue('build', {}, skip)));
    expect(answers.filter(({ outcome }) => outcome === 'created')).toHaveLength(1);
    expect(answers.filter(({ outcome }) => outcome === 'skipped')).toHaveLength(24);
    expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
    expect(await active(queue, 'build')).toHaveLength(1);
  });
}

test('001-23 of 40 concurrent skips over two connections to one file exactly one inserts (sqlite)', async () => {
  const url = await storeUrl('sqlite');
  const queues = [await open(url), await open(url)] as const;
  onTestFinished(async () => void (await Promise.all(queues.map((queue) => queue.close()))));
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, n) => queues[n % 2 ? 1 : 0].enqueue('build', {}, skip)),
  );
  expect(answers.filter(({ outcome }) => outcome === 'created')).toHaveLength(1);
  expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
});

test('001-16 the payload plays no role in matching (memory)', async () => {
  const queue = await openQueue('memory');
  for (const input of ['{not json', { deduplicationKey: 'a' }, [{ deduplicationKey: 'a' }], null]) {
    await queue.enqueue('build', input);
  }
  // The key has a field of its own, so one that merely stands in a payload is no match ...
  const keyed = await queue.enqueue('build', {}, { ...skip, deduplicationKey: 'a' });
  expect(keyed.outcome).toBe('created');
  // ... and it is not written into the payload of the job that has it.
  expect((await get(queue, keyed.id)).input).toEqual({});
  expect(await queue.enqueue('build', 'anything', { ...skip, deduplicationKey: 'a' })).toMatchObject({ id: keyed.id });
});

test('001-16 malformed stored data is no match and throws nothing (sqlite)', async () => {
  const url = await storeUrl('sqlite');
  const queue = await open(url);
  onTestFinished(async () => void (await queue.close()));
  const damaged = await queue.enqueue('build', { deduplicationKey: 'a' });
  await damageInputs(url.slice('sqlite:'.length));

  const keyed = await queue.enqueue('build', {}, { ...skip, deduplicationKey: 'a' });
  expect(keyed.outcome).toBe('created');
  expect(keyed.id).not.toBe(damaged.id);
  expect(await queue.enqueue('build', {}, { ...coalesce, deduplicationKey: 'a' })).toMatchObject({ id: keyed.id });
  const next = await queue.enqueue('build', {}, { ...replace, deduplicationKey: 'a' });
  expect(next).toMatchObject({ outcome: 'replaced', replaced: keyed.id });
});

/** Writes what is no JSON over every stored input, with a connection of its own. */
async function damageInputs(file: string): Promise<void> {
  const { DatabaseSync } = await import('@photostructure/sqlite');
  const db = new DatabaseSync(file);
  const tables = db
    .prepare(
      "select m.name from sqlite_master m, pragma_table_info(m.name) c where m.type = 'table' and c.name = 'input'",
    )
    .all() as { name: string }[];
  let damaged = 0;
  for (const { name } of tables)
    damaged += Number(db.prepare(`update "${name}" set input = '{not json'`).run().changes);
  db.close();
  expect(damaged).toBe(1);
}

test('001-19 001-20 what differs from the plan is written down', async () => {
  const readme = await readFile(new URL('../README.md', import.meta.url), 'utf8');
  for (const sentence of [
    'The input is validated before duplicates are looked for',
    '`replace` never touches a running job',
    '`coalesce` on a running job runs it once more',
    '`enqueue` answers `{ id, outcome }`',
  ]) {
    expect(readme).toContain(sentence);
  }
});
