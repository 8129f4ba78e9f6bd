// Several instances on one store: the lock, who cleans, and who takes over. Time is made by hand.
import { memoryStore } from 'lastout';
import { expect, test } from 'vitest';
import { cleanupClock, FakeDocker, type Stage, stage } from './support.js';

/** So many instances that share a store, an engine and a clock, each with its own log. */
async function instances(count: number) {
  const [store, docker, clock] = [memoryStore(), new FakeDocker(), cleanupClock()];
  const all: Stage[] = [];
  for (let i = 0; i < count; i++) all.push(await stage({ store, docker, clock }));
  return { all, docker, clock, start: () => Promise.all(all.map(({ app }) => app.cleanupWorker.start())) };
}

/** Each stop takes longer than the minute between two ticks. */
function slowly({ docker, clock }: Awaited<ReturnType<typeof instances>>): void {
  docker.before = (call) =>
    /^stop c/.test(call) ? new Promise((resolve) => clock.timer(100_000, resolve)) : undefined;
}
/** How many ticks run or wait. */
const ticksOf = async ({ queue }: Stage): Promise<number> =>
  (await queue.find({ type: 'cleanup', state: ['pending', 'processing'], limit: 200 })).items.length;

test('002-35 in one process ticks never overlap, and no container is cleaned up twice', async () => {
  const them = await instances(1);
  const { all, docker, clock, start } = them;
  const [it] = all;
  const ids = [];
  for (let i = 0; i < 20; i++) ids.push((await it!.provision(5)).id);
  slowly(them);
  await start();
  let most = 0;
  for (let minute = 0; minute < 15; minute++) {
    await clock.advance('1m');
    most = Math.max(most, await ticksOf(it!));
  }
  // One runs, and at most one waits: the ticks between are skipped.
  expect(most).toBe(2);
  expect(docker.containers.size).toBe(0);
  expect(docker.endings.toSorted()).toEqual(ids.flatMap((id) => [`stop ${id}`, `remove ${id}`]).toSorted());
});

test('002-36 a tick runs under exclusive key cleanup-lock; while it is held, at most one waits', async () => {
  const { all, docker, clock, start } = await instances(2);
  await all[0]!.provision(5);
  let proceed = (): void => undefined;
  docker.before = (call) =>
    /^stop c/.test(call)
      ? new Promise((resolve) => {
          proceed = resolve;
        })
      : undefined;
  await start();
  await clock.advance('5m');
  const { queue } = all[0]!;
  const [tick] = (await queue.find({ type: 'cleanup', state: 'processing' })).items;
  expect(tick).toMatchObject({ exclusiveKey: 'cleanup-lock' });
  await clock.advance('5m');
  expect((await queue.find({ type: 'cleanup', state: ['pending', 'processing'] })).items).toHaveLength(2);
  proceed();
  await clock.advance('1m');
  expect(docker.containers.size).toBe(0);
});

test('002-36 the claim of a tick lasts 90 s: until then nobody takes the place of a holder that stands still, and then somebody does', async () => {
  const { first, second, docker, going } = await oneStandsStill();
  await going.advance('89s');
  await going.advance(900);
  expect(docker.stops).toBe(1);
  expect(second.said('cleaning up expired containers')).toEqual([]);
  await going.advance('2s');
  expect(docker.stops).toBe(2);
  expect(second.said('cleaning up expired containers')).toHaveLength(1);
  expect(first.said('cleaning up expired containers')).toHaveLength(1);
});

test('002-37 of three instances one cleans and the others skip the tick; nothing is deleted twice', async () => {
  const { all, docker, clock, start } = await instances(3);
  await start();
  const ids = [];
  for (let i = 0; i < 30; i++) ids.push((await all[i % 3]!.provision(5 + (i % 4))).id);
  await clock.advance('10m');
  expect(docker.containers.size).toBe(0);
  for (const id of ids)
    expect(docker.endings.filter((call) => call.endsWith(` ${id}`))).toEqual([`stop ${id}`, `remove ${id}`]);
  // Each tick was one instance's: the leases expired at four of them.
  expect(all.flatMap((it) => it.said('cleaning up expired containers'))).toHaveLength(4);
  const { items } = await all[0]!.queue.find({ type: 'cleanup', state: 'completed', limit: 200 });
  expect(items).toHaveLength(10);
});

test('002-37 while one instance is at it for longer than a minute, the others do not begin', async () => {
  const them = await instances(3);
  const { all, docker, clock, start } = them;
  const ids = [];
  for (let i = 0; i < 20; i++) ids.push((await all[i % 3]!.provision(5)).id);
  slowly(them);
  await start();
  const begun = () => all.flatMap((it) => it.said('cleaning up expired containers'));
  await clock.advance('5m');
  expect(begun()).toMatchObject([{ count: 20 }]);
  await clock.advance('4m'); // 20 containers, eight at once, 100 s each
  expect(begun()).toHaveLength(1);
  await clock.advance('3m');
  expect(docker.containers.size).toBe(0);
  expect(docker.endings.toSorted()).toEqual(ids.flatMap((id) => [`stop ${id}`, `remove ${id}`]).toSorted());
});

/** The first instance holds the lock and hangs while it stops a container; from then on its clock stands still: no heartbeat. */
async function oneStandsStill() {
  const [store, docker] = [memoryStore(), Object.assign(new FakeDocker(), { stops: 0 })];
  const [stopped, going] = [cleanupClock(), cleanupClock()];
  const first = await stage({ store, docker, clock: stopped });
  const { id } = await first.provision(5);
  let proceed = (): void => undefined;
  const hanging = new Promise<void>((resolve) => {
    proceed = resolve;
  });
  docker.before = (call) => (call === `stop ${id}` && ++docker.stops === 1 ? hanging : undefined);
  await first.app.cleanupWorker.start();
  await stopped.advance('5m');
  await going.advance('5m');
  const second = await stage({ store, docker, clock: going });
  await second.app.cleanupWorker.start();
  return { first, second, docker, stopped, going, id, proceed };
}

test('002-38 a holder that stands still is replaced after 90 s, and what it says later changes nothing', async () => {
  const { second, docker, stopped, going, id, proceed } = await oneStandsStill();
  await going.advance('80s');
  expect(second.cleanups()).toEqual([]);
  await going.advance('30s');
  expect(second.cleanups()).toMatchObject([{ container_id: id, status: 'success' }]);
  expect(docker.containers.has(id)).toBe(false);
  // The first one wakes up. The container is gone, which is fine; the tick is not its own any more.
  const ticks = async () =>
    (await second.queue.find({ type: 'cleanup', limit: 200 })).items.map((job) => [job.id, job.state]);
  const before = await ticks();
  proceed();
  await stopped.settle();
  expect(await ticks()).toEqual(before);
  await going.advance('2m');
  expect((await second.queue.stats()).total).toMatchObject({ processing: 0, failed: 0 });
});
