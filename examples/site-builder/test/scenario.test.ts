import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Job } from 'lastout';
import { expect, onTestFinished, test } from 'vitest';
import { Handshake } from '../src/handshake.js';
import { Host } from '../src/host.js';
import { renderPage } from '../src/page.js';
import { SiteBuilderPlugin } from '../src/plugin.js';
import { recordingLogger, type Store, storeUrl, stores, temporaryFolder } from './support.js';

interface Row {
  readonly at: string;
  readonly event: string;
  readonly queue: string;
  readonly action: string;
}

/** The posts that a build wrote, by the folders that it left on disk. */
async function postsOf(outputDir: string, revision: number): Promise<number[]> {
  const entries = await readdir(join(outputDir, 'revisions', String(revision), 'posts'), { withFileTypes: true });
  const posts = entries.filter((entry) => entry.isDirectory()).map((entry) => Number(entry.name.slice('post-'.length)));
  return posts.sort((a, b) => a - b);
}

const oneTo = (n: number): number[] => Array.from({ length: n }, (_, i) => i + 1);

/** The bulk import of the plan: its clock is the test's, and the builds wait at doors instead of taking seconds. */
async function bulkImport(store: Store) {
  const outputDir = await temporaryFolder();
  const { logger, lines } = recordingLogger();
  const start = Date.parse('2026-01-01T00:00:00Z');
  let now = start;
  const host = await Host.open(await storeUrl(store), { logger, clock: { now: () => new Date(now) } });
  onTestFinished(async () => void (await host.shutdown()));
  const doors: Record<number, Handshake> = { 1: new Handshake(), 2: new Handshake() };
  const plugin = new SiteBuilderPlugin({
    outputDir,
    render: async (page) => {
      await doors[page.revision]?.pass();
      return renderPage(page);
    },
  });
  await host.register(plugin);

  const builds = async (): Promise<readonly Job[]> =>
    [...(await host.queue.find({ type: 'site-build' })).items].reverse();
  const rows: Row[] = [];
  const record = async (event: string, action: string): Promise<void> => {
    const live = (await builds()).flatMap(({ state }, i) => {
      if (state === 'pending') return [`Build #${i + 1}: PENDING`];
      return state === 'processing' ? [`Build #${i + 1}: PROC`] : [];
    });
    rows.push({ at: `${now - start}ms`, event, queue: `[${live.join(', ')}]`, action });
  };
  const create = async (n: number, at: number): Promise<void> => {
    now = start + at;
    lines.length = 0;
    const before = (await builds()).length;
    await host.entityService.createEntity('post', { title: `Post ${n}` }, `post-${n}`);
    const skipped = lines.filter(({ message }) => message === 'Skipping duplicate job').length;
    await record(
      `Entity ${n} created`,
      skipped === 0 ? `Enqueued ${(await builds()).length - before}` : `Skipped ${skipped}`,
    );
  };

  for (let n = 1; n <= 49; n++) await create(n, n === 1 ? 0 : Math.min(n + 3, 49));
  now = start + 50;
  await host.startWorker({ concurrency: 10 });
  await doors[1]?.arrived;
  await record('Worker picks up', 'Build starts');
  await create(50, 55);
  await create(51, 60);

  now = start + 2_000;
  doors[1]?.release();
  await doors[2]?.arrived;
  await record('Build #1 done', 'Build #2 starts');
  now = start + 4_000;
  doors[2]?.release();
  const [, second] = await builds();
  if (second) await host.queue.wait(second.id);
  await record('Build #2 done', '');
  return { rows, builds: await builds(), outputDir, start };
}

for (const store of stores) {
  test(`001-41 001-46 the bulk import goes through the queue as the plan's timeline says (${store})`, async () => {
    const { rows, builds, start } = await bulkImport(store);

    const pending1 = '[Build #1: PENDING]';
    const both = '[Build #1: PROC, Build #2: PENDING]';
    expect(rows[0]).toEqual({ at: '0ms', event: 'Entity 1 created', queue: pending1, action: 'Enqueued 1' });
    expect(rows[1]).toEqual({ at: '5ms', event: 'Entity 2 created', queue: pending1, action: 'Skipped 1' });
    for (const [i, row] of rows.slice(2, 49).entries()) {
      expect(row).toMatchObject({ event: `Entity ${i + 3} created`, queue: pending1, action: 'Skipped 1' });
    }
    expect(rows.slice(49)).toEqual([
      { at: '50ms', event: 'Worker picks up', queue: '[Build #1: PROC]', action: 'Build starts' },
      { at: '55ms', event: 'Entity 50 created', queue: both, action: 'Enqueued 1' },
      { at: '60ms', event: 'Entity 51 created', queue: both, action: 'Skipped 1' },
      { at: '2000ms', event: 'Build #1 done', queue: '[Build #2: PROC]', action: 'Build #2 starts' },
      { at: '4000ms', event: 'Build #2 done', queue: '[]', action: '' },
    ]);
    const after = (date: Date | null) => Number(date) - start;
    expect(builds.map((job) => [after(job.createdAt), after(job.startedAt), after(job.completedAt)])).toEqual([
      [0, 50, 2_000],
      [55, 2_000, 4_000],
    ]);
  });

  test(`001-42 001-43 51 changes are two builds, and none is lost (${store})`, async () => {
    const { builds, outputDir } = await bulkImport(store);

    expect(builds.map(({ state, attempts, result }) => ({ state, attempts, result }))).toEqual([
      { state: 'completed', attempts: 1, result: { pages: 50, revision: 1 } },
      { state: 'completed', attempts: 1, result: { pages: 52, revision: 2 } },
    ]);
    const first = await postsOf(outputDir, 1);
    const second = await postsOf(outputDir, 2);
    expect(first).toEqual(oneTo(49));
    expect(second).toEqual(oneTo(51));
    expect(second.filter((post) => !first.includes(post))).toEqual([50, 51]);
  });

  test(`001-44 two workers with ten slots each never run two builds (${store})`, async () => {
    const { logger } = recordingLogger();
    const host = await Host.open(await storeUrl(store), { logger });
    onTestFinished(async () => void (await host.shutdown()));
    const door = new Handshake();
    const plugin = new SiteBuilderPlugin({
      outputDir: await temporaryFolder(),
      render: async (page) => {
        await door.pass();
        return renderPage(page);
      },
    });
    await host.register(plugin);
    await host.startWorker({ concurrency: 10, poll: 1 });
    await host.startWorker({ concurrency: 10, poll: 1 });
    await host.entityService.createEntity('post', { title: 'Post 1' }, 'post-1');
    await door.arrived;

    for (let n = 2; n <= 60; n++) {
      await host.entityService.createEntity('post', { title: `Post ${n}` }, `post-${n}`);
      const { total } = await host.queue.stats();
      expect([total.processing, total.pending]).toEqual([1, 1]);
    }
    // Due, free slots everywhere, and still nobody may take it: it stands behind the running build.
    expect(await plugin.status()).toMatchObject({ queued: true, building: true, lastSuccess: null, lastFailure: null });
    const [waiting] = (await plugin.status()).recent;
    door.release();
    expect((await host.queue.wait(waiting?.id ?? '')).result).toEqual({ pages: 61, revision: 2 });
    expect(await plugin.status()).toMatchObject({
      queued: false,
      building: false,
      lastSuccess: { id: waiting?.id },
      recent: [{ state: 'completed' }, { state: 'completed' }],
    });
  });
}

test('a shutdown takes the plugin first: no change asks a queue that is closing', async () => {
  const { logger, lines } = recordingLogger();
  const host = await Host.open('memory:', { logger });
  const door = new Handshake();
  const plugin = new SiteBuilderPlugin({
    outputDir: await temporaryFolder(),
    render: async (page) => {
      await door.pass();
      return renderPage(page);
    },
  });
  await host.register(plugin);
  await host.entityService.createEntity('post', { title: 'x' }, 'post-1');
  expect(await plugin.status()).toMatchObject({ queued: true, building: false });
  await host.startWorker();
  await door.arrived;
  expect(await plugin.status()).toMatchObject({ queued: false, building: true });

  const shutdown = host.shutdown();
  await host.entityService.createEntity('post', { title: 'x' }, 'post-2');
  expect(host.bus.subscriptionCount).toBe(0);
  expect((await host.queue.find({ type: 'site-build' })).items).toHaveLength(1);
  door.release();
  expect((await shutdown).abandoned).toEqual([]);
  expect(lines.filter(({ level }) => level === 'error')).toEqual([]);
});

/** A host whose builds fail as often as `broken` says. */
async function breakableHost(attempts?: number) {
  const { logger } = recordingLogger();
  const host = await Host.open('memory:', { logger });
  onTestFinished(async () => void (await host.shutdown()));
  const template = { broken: 0 };
  const plugin = new SiteBuilderPlugin({
    outputDir: await temporaryFolder(),
    render: (page) => {
      if (template.broken-- > 0) throw new Error('template');
      return renderPage(page);
    },
    ...(attempts !== undefined && { attempts }),
  });
  await host.register(plugin);
  await host.startWorker();
  const ask = async (n: number): Promise<string> => {
    await host.entityService.createEntity('post', { title: 'x' }, `post-${n}`);
    return (await plugin.status()).recent[0]!.id;
  };
  return { host, plugin, template, ask };
}

test('of each kind of ended builds the newest twenty are kept', async () => {
  const { host, template, ask } = await breakableHost(1);
  for (let n = 1; n <= 50; n++) {
    template.broken = n % 2;
    expect((await host.queue.wait(await ask(n))).state).toBe(n % 2 ? 'failed' : 'completed');
  }
  await host.queue.sweep();
  for (const state of ['completed', 'failed'] as const)
    expect((await host.queue.find({ type: 'site-build', state, limit: 100 })).items).toHaveLength(20);
});

test('a build is tried three times', async () => {
  const { host, template, ask } = await breakableHost();
  template.broken = Number.POSITIVE_INFINITY;
  // Nobody has to wait for the time between two attempts.
  host.queue.on('retried', ({ id }) => void host.queue.reschedule(id, { delay: 0 }));
  expect(await host.queue.wait(await ask(1))).toMatchObject({ state: 'failed', attempts: 3 });
});

test('a failing build is shown in the status, and the next one heals it', async () => {
  const { logger } = recordingLogger();
  const host = await Host.open('memory:', { logger });
  onTestFinished(async () => void (await host.shutdown()));
  let broken = true;
  const plugin = new SiteBuilderPlugin({
    outputDir: await temporaryFolder(),
    attempts: 1,
    render: (page) => {
      if (broken) throw new Error('template');
      return renderPage(page);
    },
  });
  await host.register(plugin);
  await host.startWorker();
  for (let n = 1; n <= 7; n++) {
    broken = n === 6;
    await host.entityService.createEntity('post', { title: 'x' }, `post-${n}`);
    const [build] = (await plugin.status()).recent;
    await host.queue.wait(build?.id ?? '');
  }
  const { lastSuccess, lastFailure, recent } = await plugin.status();
  expect(recent.map(({ state }) => state)).toEqual(['completed', 'failed', 'completed', 'completed', 'completed']);
  expect(lastFailure).toMatchObject({ id: recent[1]?.id, error: { message: 'template' } });
  expect(lastSuccess?.id).toBe(recent[0]?.id);
  await plugin.onShutdown();
  await expect(plugin.status()).rejects.toThrow('not registered');
});
