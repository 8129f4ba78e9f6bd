// The worker on an engine in memory, under a clock that stands still: ticks, steps, retries, failures, the log.
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { CleanupParts } from '../src/cleanup-worker.js';
import { recorded, type Stage, stage, unreachable } from './support.js';

const never = new AbortController().signal;
const idsOf = async ({ queue }: Stage, queueName: string): Promise<string[]> =>
  (await queue.find({ queue: queueName, state: 'pending' })).items.map(({ id }) => id);

test('002-01 002-04 an expired container goes though nobody calls anything: the worker is on its own', async () => {
  const it = await stage();
  const { id } = await it.provision(5);
  // No server: only the worker runs.
  await it.app.cleanupWorker.start();
  await it.clock.advance('6m');
  expect(it.docker.containers.has(id)).toBe(false);
  expect(it.cleanups()).toMatchObject([{ container_id: id, status: 'success' }]);
});

test('002-02 it ticks every minute, or as CLEANUP_INTERVAL_MINUTES says', async () => {
  for (const [minutes, ticks] of [
    [undefined, 6],
    ['2', 3],
  ] as const) {
    const calls: string[] = [];
    const it = await stage({
      env: minutes ? { CLEANUP_INTERVAL_MINUTES: minutes } : {},
      wrap: (parts) => recorded(parts, calls),
    });
    await it.app.cleanupWorker.start();
    await it.clock.advance('59s');
    expect(calls).toEqual([]);
    await it.clock.advance('5m');
    await it.clock.advance('2s');
    expect(calls.filter((call) => call === 'leaseRepo.getExpiredLeases')).toHaveLength(ticks);
  }
});

test('002-03 starting the app starts the worker beside the server', async () => {
  const it = await stage();
  const address = await it.app.start();
  expect((await fetch(`${address}/healthz`)).status).toBe(200);
  expect(it.said('cleanup worker started')).toHaveLength(1);
  expect(await it.queue.schedules()).toMatchObject([{ name: 'cleanup', type: 'cleanup' }]);
});

test('002-05 002-24 expired leases are asked for, and what has not expired is not touched', async () => {
  const it = await stage();
  const [long, short, shorter] = [await it.provision(120), await it.provision(10), await it.provision(5)];
  const { leaseRepository } = it.app.parts;
  expect(await leaseRepository.getExpiredLeases()).toEqual([]);
  await it.clock.advance('10m');
  expect(await leaseRepository.getExpiredLeases()).toEqual([shorter.id, short.id]);
  await it.app.cleanupWorker.cleanupExpiredContainers(never);
  expect([...it.docker.containers.keys()]).toEqual([long.id]);
  expect(await idsOf(it, 'leases')).toEqual([`lease:${long.id}`]);
});

test('002-06 those that fail, and one that hangs, hold up nobody else: all others go in the same tick', async () => {
  const it = await stage();
  const ids: string[] = [];
  for (let i = 0; i < 30; i++) ids.push((await it.provision(5)).id);
  // The first to be tried: one that hangs, and more that fail than are cleaned up at once.
  const [hanging, ...behind] = ids;
  const failing = behind.slice(0, 12);
  it.docker.refuse = (call) => (failing.some((id) => call === `stop ${id}`) ? unreachable() : undefined);
  it.docker.before = (call) => (call === `remove ${hanging}` ? new Promise(() => undefined) : undefined);
  await it.app.cleanupWorker.start();
  await it.clock.advance('5m');
  await it.clock.advance('40s'); // two rounds of attempts that fail take 28 s
  expect(it.said('cleaning up expired containers')).toMatchObject([{ count: 30 }]);
  expect([...it.docker.containers.keys()]).toEqual([hanging, ...failing]);
  for (const id of failing)
    expect(it.cleanups().filter(({ container_id }) => container_id === id)).toMatchObject([
      { status: 'failure', attempt: 1 },
      { status: 'failure', attempt: 2 },
      { status: 'failure', attempt: 3 },
    ]);
  expect(it.cleanups().filter(({ status }) => status === 'success')).toHaveLength(17);
});

test('002-07 stopping ends the loop and a wait between attempts; no tick comes afterwards', async () => {
  const it = await stage();
  await it.provision(5);
  it.docker.refuse = (call) => (call.startsWith('stop') ? unreachable() : undefined);
  await it.app.cleanupWorker.start();
  await it.clock.advance('5m');
  await it.clock.advance('2s'); // it waits four seconds after its second attempt
  expect(it.cleanups()).toHaveLength(2);
  await it.app.cleanupWorker.stop();
  expect(it.said('cleanup worker stopped')).toHaveLength(1);
  await it.clock.advance('10m');
  expect(it.cleanups()).toHaveLength(2);
});

test('002-08 a query that fails is logged, and the next tick comes all the same', async () => {
  let isDown = true;
  const it = await stage({
    wrap: (parts) => ({
      ...parts,
      leaseRepository: {
        ...parts.leaseRepository,
        getExpiredLeases: () =>
          isDown ? Promise.reject(new Error('store down')) : parts.leaseRepository.getExpiredLeases(),
      },
    }),
  });
  const { id } = await it.provision(5);
  await it.app.cleanupWorker.start();
  await it.clock.advance('6m');
  expect(it.said('failed to query expired leases').length).toBeGreaterThanOrEqual(5);
  expect(it.said('failed to query expired leases')[0]).toMatchObject({ level: 'error', error: 'store down' });
  isDown = false;
  await it.clock.advance('1m');
  expect(it.docker.containers.has(id)).toBe(false);
});

/** The steps of one cleanup as they were called, and where the log line came. */
async function cleaned(refuse: string | null = null): Promise<{ calls: string[]; it: Stage }> {
  const calls: string[] = [];
  const it = await stage({
    wrap: (parts) => {
      const own: CleanupParts = recorded(parts, calls);
      return {
        ...own,
        logger: { ...own.logger, cleanup: (outcome) => (calls.push('log'), parts.logger.cleanup(outcome)) },
      };
    },
  });
  const { id } = await it.provision(5);
  await it.clock.advance('5m');
  calls.length = 0;
  it.docker.refuse = (call) => (refuse !== null && call.startsWith(refuse) ? unreachable() : undefined);
  await it.app.cleanupWorker.performCleanup(id, 1, never);
  return { calls, it };
}

test('002-09 002-10 002-11 first stop, then remove, then the repository', async () => {
  const { calls } = await cleaned();
  expect(calls.slice(0, 3)).toEqual(['docker.stopContainer', 'docker.removeContainer', 'containerRepo.delete']);
});

test('002-12 002-13 then the lease, and in the end the log', async () => {
  const { calls, it } = await cleaned();
  expect(calls.slice(3)).toEqual(['leaseRepo.deleteLease', 'log']);
  expect(await idsOf(it, 'leases')).toEqual([]);
  expect(await idsOf(it, 'containers')).toEqual([]);
});

test('002-14 a step that fails ends the sequence, and the attempt counts as failed', async () => {
  const { calls, it } = await cleaned('remove');
  expect(calls).toEqual(['docker.stopContainer', 'docker.removeContainer', 'log']);
  expect(it.cleanups()).toMatchObject([{ status: 'failure', attempt: 1 }]);
});

/** Runs one cleanup under the clock and answers whether it succeeded. */
async function attempts(it: Stage, id: string): Promise<boolean> {
  let result: boolean | null = null;
  void it.app.cleanupWorker.cleanupContainer(id, never).then((answer) => {
    result = answer;
  });
  for (let s = 0; s < 30 && result === null; s++) {
    await turn();
    await it.clock.advance('1s');
  }
  return result!;
}

test('002-15 002-16 three attempts, and after them 1, 4 and 9 seconds', async () => {
  const it = await stage();
  const { id } = await it.provision(5);
  it.docker.refuse = (call) => (call.startsWith('stop') ? unreachable() : undefined);
  const startedAt = it.clock.now().getTime();
  expect(await attempts(it, id)).toBe(false);
  expect(it.clock.slept).toEqual([1_000, 4_000, 9_000]);
  const at = it.cleanups().map(({ timestamp }) => (Date.parse(timestamp) - startedAt) / 1_000);
  expect(at).toEqual([0, 1, 5]);
});

test('002-17 the attempt that succeeds is the last one, and the log has its number', async () => {
  const it = await stage();
  const { id } = await it.provision(5);
  it.docker.refuse = (call) => (call.startsWith('remove') && it.cleanups().length < 1 ? unreachable() : undefined);
  expect(await attempts(it, id)).toBe(true);
  expect(it.cleanups()).toMatchObject([
    { status: 'failure', attempt: 1 },
    { status: 'success', attempt: 2 },
  ]);
});

test('002-18 after the last attempt it is logged as an error, stays on record, and the next tick tries again', async () => {
  const it = await stage();
  const { id } = await it.provision(5);
  it.docker.refuse = (call) => (call.startsWith('stop') ? unreachable() : undefined);
  await it.app.cleanupWorker.start();
  await it.clock.advance('5m');
  await it.clock.advance('20s');
  expect(it.said('cleanup failed, it is tried again at the next tick')).toMatchObject([
    { level: 'error', container_id: id, step: 'stop' },
  ]);
  expect(await idsOf(it, 'leases')).toEqual([`lease:${id}`]);
  it.docker.refuse = () => undefined;
  await it.clock.advance('1m');
  expect(it.docker.containers.has(id)).toBe(false);
  expect(await idsOf(it, 'leases')).toEqual([]);
});

test('002-23 after 120 minutes the worker finds it expired, takes the four steps and logs success', async () => {
  const it = await stage();
  const { id } = await it.provision(120);
  await it.app.cleanupWorker.start();
  await it.clock.advance('119m');
  expect(it.docker.endings).toEqual([]);
  await it.clock.advance('2m');
  expect(it.docker.endings).toEqual([`stop ${id}`, `remove ${id}`]);
  expect(it.cleanups()).toMatchObject([{ container_id: id, action: 'cleanup', status: 'success' }]);
  expect(await idsOf(it, 'leases')).toEqual([]);
  expect((await it.app.service.status(id)) as object).toMatchObject({ status: 'terminated', timeLeftSeconds: 0 });
  // lastout's own lease on it has ended as well; nothing is left behind.
  await it.clock.advance('1m');
  expect((await it.queue.leases.find({ state: 'held' })).items).toEqual([]);
  expect((await it.queue.stats()).leftBehind).toBe(0);
});

test('002-29 an engine that is not reached is asked again, with the waits between', async () => {
  const it = await stage();
  const { id } = await it.provision(5);
  it.docker.refuse = (call) => (call.startsWith('stop') && it.cleanups().length < 2 ? unreachable() : undefined);
  expect(await attempts(it, id)).toBe(true);
  expect(it.clock.slept).toEqual([1_000, 4_000]);
  expect(it.said('cleanup step failed')).toMatchObject([{ step: 'stop', reason: unreachable().message }, {}]);
});

test('002-30 what is stopped, or gone, already is no failure', async () => {
  const it = await stage();
  const [stopped, gone] = [await it.provision(5), await it.provision(5)];
  await it.docker.getContainer(stopped.id).stop();
  it.docker.containers.delete(gone.id);
  expect(await attempts(it, stopped.id)).toBe(true);
  expect(await attempts(it, gone.id)).toBe(true);
  expect(it.cleanups()).toMatchObject([{ status: 'success' }, { status: 'success' }]);
});

test('002-32 what was stopped and not removed is cleaned up from the first step on', async () => {
  const it = await stage();
  const { id } = await it.provision(5);
  it.docker.refuse = (call) => (call.startsWith('remove') && it.cleanups().length === 0 ? unreachable() : undefined);
  expect(await attempts(it, id)).toBe(true);
  expect(it.docker.endings).toEqual([`stop ${id}`, `remove ${id}`, `stop ${id}`, `remove ${id}`]);
});

test('002-33 002-34 the log line has exactly seven fields, for success and for failure', async () => {
  const it = await stage();
  const { id } = await it.provision(5);
  it.docker.refuse = (call) => (call.startsWith('stop') && it.cleanups().length === 0 ? unreachable() : undefined);
  await attempts(it, id);
  const fields = ['timestamp', 'level', 'container_id', 'action', 'status', 'attempt', 'duration_ms'];
  const [failure, success] = it.cleanups().map((entry) => JSON.parse(JSON.stringify(entry)) as object);
  expect(Object.keys(failure!)).toEqual(fields);
  expect(Object.keys(success!)).toEqual(fields);
  expect(failure).toMatchObject({ level: 'error', container_id: id, action: 'cleanup', status: 'failure', attempt: 1 });
  expect(success).toEqual({
    timestamp: '2030-01-01T00:00:01.000Z',
    level: 'info',
    container_id: id,
    action: 'cleanup',
    status: 'success',
    attempt: 2,
    duration_ms: 0,
  });
});
