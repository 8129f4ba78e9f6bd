import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { DatabaseSync } from '@photostructure/sqlite';
import { open } from 'lastout';
import { fakeClock } from 'lastout/testing';
import { expect, onTestFinished, test } from 'vitest';
import { storeOptions } from '../src/app.js';
import { readConfig } from '../src/config.js';
import { createLogger } from '../src/logger.js';
import type { Renderer } from '../src/renderer.js';
import {
  Door,
  openStore,
  recordingLogger,
  rendererBehind,
  stage,
  StubRenderer,
  temporaryFolder,
  until,
} from './support.js';

/** The pauses that were asked for, besides being made. */
function listeningClock() {
  const clock = fakeClock();
  const pauses: number[] = [];
  const timer = clock.timer;
  clock.timer = (ms, callback) => {
    pauses.push(ms);
    return timer(ms, callback);
  };
  return { clock, pauses };
}

/** A processor under a clock that is moved by hand. */
async function timedStage(
  env: { [name: string]: string } = {},
  cleanup: { cleanupIntervalMs?: number; jobRetentionMs?: number } = {},
  renderer: Renderer = new StubRenderer(),
) {
  const { clock, pauses } = listeningClock();
  const file = `sqlite:${join(await temporaryFolder(), 'jobs.db')}`;
  const lines: string[] = [];
  const log = (message: string): void => void lines.push(message);
  const logger = { debug: log, info: log, warn: log, error: log };
  const store = await open(file, { clock, logger, cleanup });
  const at = await stage({ store, env, logger, renderer });
  onTestFinished(async () => {
    let closed = false;
    void store.close({ grace: 0 }).finally(() => {
      closed = true;
    });
    while (!closed) await clock.advance(100);
  });
  await clock.settle();
  return { ...at, clock, pauses, file, messages: lines };
}

test('003-01 without a job the processor waits for the poll interval and looks again', async () => {
  const at = await timedStage({ JOB_POLL_INTERVAL_MS: '250' });
  await at.processor.start();
  await at.clock.settle();
  // Another process puts a job into the file: nothing but polling can find it.
  const other = await openStore(at.file, { clock: at.clock });
  const { id } = await (await stage({ store: other })).jobStore.create({
    source: 'x',
    format: 'd2',
    outputType: 'svg',
  });
  await at.clock.advance(249);
  const before = (await at.jobStore.get(id))?.status;
  await at.clock.advance(250);
  await at.clock.advance(250);
  expect([before, (await at.jobStore.get(id))?.status]).toEqual(['pending', 'completed']);
});

test('003-16 an idle processor sleeps: one look per interval, and not a word in the log', async () => {
  const at = await timedStage({}, { cleanupIntervalMs: 3_600_000 });
  await at.processor.start();
  await at.clock.settle();
  at.pauses.length = 0;
  at.messages.length = 0;
  await at.clock.advance('10s');
  const polls = at.pauses.filter((ms) => ms === 100).length;
  expect(polls).toBeGreaterThan(50);
  expect(polls).toBeLessThanOrEqual(101);
  expect(at.messages).toEqual([]);
});

test('003-16 idle at the intervals and the log level of the defaults: for ten minutes not a word, cleanup included', async () => {
  const config = readConfig({});
  const { clock } = listeningClock();
  const lines: string[] = [];
  const logger = createLogger(config.logLevel, ({ message }) => lines.push(message));
  let passes = 0;
  const counting = {
    ...logger,
    debug(message: string) {
      if (message === 'No cleanup needed') passes += 1;
      logger.debug(message);
    },
  };
  const folder = await temporaryFolder();
  // What the store says below the level is counted, so that these are minutes in which it did clean up.
  const told = { ...storeOptions(config, logger), logger: counting, clock };
  const store = await open(`sqlite:${join(folder, 'jobs.db')}`, told);
  const at = await stage({ store, config, logger });
  onTestFinished(async () => {
    const closed = store.close({ grace: 0 });
    await clock.advance('1s');
    await closed;
  });
  await at.processor.start();
  await clock.settle();
  lines.length = 0;
  passes = 0;
  for (let minute = 0; minute < 10; minute++) await clock.advance('1m');
  expect(lines).toEqual([]);
  expect(passes).toBe(10);
}, 60_000);

test('003-10 every cleanup interval old jobs are removed, and their number is logged', async () => {
  const at = await timedStage(
    { JOB_POLL_INTERVAL_MS: '30000', JOB_RETENTION_MS: '300000' },
    { cleanupIntervalMs: 60_000, jobRetentionMs: 300_000 },
  );
  await at.processor.start();
  for (const source of ['a', 'b', 'c']) await at.submit(source);
  await at.clock.advance('1s');
  expect((await at.store.stats()).total.completed).toBe(3);
  at.messages.length = 0;
  await at.clock.advance('4m');
  expect(at.messages.filter((text) => text === 'No cleanup needed')).toHaveLength(4);
  await at.clock.advance('2m');
  expect(at.messages).toContain('Removed 3 old jobs from sqlite');
  expect((await at.store.stats()).total.completed).toBe(0);
  expect(await at.jobStore.cleanup()).toBe(0);
});

test('003-34 finished jobs go an hour after their end, pending and rendering ones never', async () => {
  const door = new Door();
  const slowly = rendererBehind(door);
  const renderer: Renderer = {
    render: (source, ...rest) =>
      source === 'slow' ? slowly.render(source, ...rest) : Promise.resolve(Buffer.from(source)),
  };
  const { clock } = listeningClock();
  const store = await open('memory:', {
    clock,
    cleanup: { jobRetentionMs: 3_600_000, cleanupIntervalMs: 60_000 },
  });
  const at = await stage({ store, renderer, env: { JOB_POLL_INTERVAL_MS: '30000' } });
  onTestFinished(async () => {
    let closed = false;
    void store.close({ grace: 0 }).finally(() => (closed = true));
    while (!closed) await clock.advance(100);
  });
  const { id: pending } = await store.enqueue(
    'render',
    { source: 'p', format: 'd2', outputType: 'svg' },
    { queue: 'nobody' },
  );
  await store.pause('nobody');
  await at.processor.start();
  const slow = await at.submit('slow');
  const quick = await at.submit('quick');
  await clock.advance('1s');
  await clock.advance('3599s');
  expect((await at.jobStore.get(quick))?.status).toBe('completed');
  await clock.advance('2m');
  expect(await at.jobStore.get(quick)).toBeNull();
  await clock.advance('3h');
  expect((await at.jobStore.get(pending))?.status).toBe('pending');
  expect((await at.jobStore.get(slow))?.status).toBe('rendering');
  door.open();
  await clock.advance('1s');
  expect((await at.jobStore.get(slow))?.status).toBe('completed');
});

test('003-19 003-30 stopping takes no new job, waits for the one that renders, and its status is written', async () => {
  const door = new Door();
  const renderer = rendererBehind(door);
  const at = await stage({ renderer, env: { QUEUE_MAX_CONCURRENT: '2', QUEUE_MAX_WAITING: '5' } });
  await at.processor.start();
  const current = await at.submit('current');
  await door.arrived;
  // A caller has the other slot.
  const release = await at.queue.acquire();
  const inLine = await at.submit('in line');
  await until('it stands in line', () => at.queue.waiting === 1);

  let stopped = false;
  const stopping = at.processor.stop().then((report) => {
    stopped = true;
    return report;
  });
  expect(at.processor.isRunning()).toBe(false);
  const later = await at.submit('later');
  await until('who only waited is pending again', async () => (await at.jobStore.get(inLine))?.status === 'pending');
  await setImmediate();
  expect(stopped).toBe(false);

  door.open();
  release();
  expect(await stopping).toMatchObject({ abandoned: [] });
  expect((await at.jobStore.get(current))?.status).toBe('completed');
  expect((await at.jobStore.get(inLine))?.status).toBe('pending');
  expect((await at.jobStore.get(later))?.status).toBe('pending');
  expect(renderer.calls.map(([source]) => source)).toEqual(['current']);

  // The next start takes them.
  const next = await stage({ store: at.store });
  await next.processor.start();
  for (const id of [inLine, later]) expect((await next.finished(id)).status).toBe('completed');
  expect(await at.store.get(inLine)).toMatchObject({ attempts: 1 });
});

test('003-19 003-30 stopping waits for what renders as long as a rendering may take, and a little, and no longer', async () => {
  for (const [waitMs, status, handedBack] of [
    [34_000, 'completed', 0],
    [36_000, 'pending', 1],
  ] as const) {
    const door = new Door();
    const at = await timedStage({ JOB_POLL_INTERVAL_MS: '30000' }, {}, rendererBehind(door));
    await at.processor.start();
    const id = await at.submit('current');
    await at.clock.advance('1s');
    await door.arrived;
    const stopping = at.processor.stop();
    await at.clock.advance(waitMs);
    // Only now is it done, 30 seconds of RENDER_TIMEOUT_MS and more after the stop began.
    door.open();
    await at.clock.advance(1);
    expect((await stopping)?.handedBack).toHaveLength(handedBack);
    expect([waitMs, (await at.jobStore.get(id))?.status]).toEqual([waitMs, status]);
  }
}, 60_000);

test('003-24 an error of the database is logged and tried again, also when it hides how a rendering ended', async () => {
  const door = new Door();
  const renderer = new StubRenderer(async (source) => (source === 'during' && (await door.pass()), source));
  const file = join(await temporaryFolder(), 'jobs.db');
  const { logger, said } = recordingLogger();
  const at = await stage({ store: await openStore(`sqlite:${file}`, { logger }), logger, renderer });
  await at.processor.start();
  const id = await at.submit('during');
  await door.arrived;

  // Somebody takes the tables away while the job renders.
  const intruder = new DatabaseSync(file);
  onTestFinished(() => intruder.close());
  const tables = (intruder.prepare("select name from sqlite_master where type = 'table'").all() as { name: string }[])
    .map(({ name }) => name)
    .filter((name) => /(?:jobs|claims)$/.test(name));
  expect(tables.length).toBeGreaterThan(0);
  for (const name of tables) intruder.exec(`alter table "${name}" rename to "${name}_away"`);
  door.open();
  await until('the errors are in the log', () => said('The store does not answer; trying again').length > 0);
  expect(at.processor.isRunning()).toBe(true);

  for (const name of tables) intruder.exec(`alter table "${name}_away" rename to "${name}"`);
  expect((await at.finished(id)).status).toBe('completed');
  expect((await at.finished(await at.submit('after'))).status).toBe('completed');
  expect(renderer.calls.map(([source]) => source)).toEqual(['during', 'after']);
});

test('003-31 after stopping and closing nothing is left: no timer, no worker, no slot', async () => {
  const { clock } = listeningClock();
  const store = await open(`sqlite:${join(await temporaryFolder(), 'jobs.db')}`, { clock });
  const at = await stage({ store });
  {
    await using processor = at.processor;
    await processor.start();
    const id = await at.submit('x');
    await clock.advance('1s');
    expect((await at.jobStore.get(id))?.status).toBe('completed');
  }
  await store.close();
  expect(clock.pendingTimers).toBe(0);
  expect(at.processor.isRunning()).toBe(false);
  expect(at.queue.running).toBe(0);
  await expect(at.queue.acquire()).rejects.toMatchObject({ code: 'SLOTS_CLOSED', message: 'Queue destroyed' });
});
