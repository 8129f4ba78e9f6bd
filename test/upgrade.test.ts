// Data that earlier versions of lastout have written are read as they were, and everything in them comes to its end.
import { readdirSync } from 'node:fs';
import { expect, test } from 'vitest';
import { type Job, open, type Queue } from '../src/index.js';
import { describeOn } from './engines.js';
import { provider } from './leases-support.js';
import { day, hour, minute, textOf } from './lifecycle-support.js';
import { closedAfterwards, expectCode } from './support.js';
import { eventually } from './stores/postgres-support.js';
import { actingIn, counted, kept, keptCodec, plain } from './upgrade/jobs.js';
import { folderWith, restore } from './upgrade/restore.js';
import { type Namespace, namespaces, readStored, type Stored, type StoredOn, versions } from './upgrade/stored.js';
import { allJobs, viewOf } from './upgrade/view.js';

/** Texts of our own may change between versions: durations were told in milliseconds. */
function inWordsOfNow<T>(view: T): T {
  return JSON.parse(JSON.stringify(view).replaceAll('86400000 ms', '1d')) as T;
}

for (const version of versions())
  for (const engine of ['sqlite', 'postgres', 'redis'] as const)
    describeOn(engine, `data of ${version} on ${engine}`, () => {
      test.each(namespaces)('are read as they were written (%s)', async (namespace) => {
        // Who knows the kind of the leases puts the reconciler of now in the place of that one.
        const { queue, stored } = await reopened(version, engine, namespace, false);
        const { ledger, ...view } = await viewOf(queue);
        const { ledger: ledgerThen, ...viewThen } = stored.view;
        expect(view).toMatchObject(inWordsOfNow(viewThen));
        expect(ledger.slice(-ledgerThen.length)).toEqual(ledgerThen); // opening has added a pass
        const { items } = await queue.find({ id: 'finished-artifacts' });
        const [report] = (await queue.artifacts.list(items[0]!.id)).filter(({ name }) => name === 'report.txt');
        expect(await textOf(await queue.artifacts.read(report!.id))).toBe('report of finished');
        expect(await queue.artifacts.byLink(report!.shortLink!)).toMatchObject({ id: report!.id });
      });

      test('bind those who come later', async () => {
        const { queue, acting } = await reopened(version, engine, 'lastout');
        const back = { act: 'return' } as const;
        const keyed = (deduplication: 'skip' | 'coalesce') => ({
          deduplication,
          deduplicationKey: `key of ${deduplication}`,
        });
        expect(await queue.enqueue(acting, back, keyed('skip'))).toEqual({ id: 'waits-skip', outcome: 'skipped' });
        expect(await queue.enqueue(acting, back, keyed('coalesce'))).toEqual({
          id: 'waits-coalesce',
          outcome: 'coalesced',
        });
        const known = { id: 'finished-return', outcome: 'existing' };
        expect(await queue.enqueue(acting, { act: 'return', text: 'finished' }, { id: 'finished-return' })).toEqual(
          known,
        );
        const gone = { act: 'return', text: 'to be removed' } as const;
        expect(await queue.enqueue(acting, gone, { id: 'removed' })).toEqual({ id: 'removed', outcome: 'existing' });
        await expectCode('IDEMPOTENCY_CONFLICT', () => queue.enqueue(acting, back, { id: 'removed' }));
        await expectCode('SUBJECT_ENDED', () => queue.enqueue(acting, back, { subject: 'trip:over' }));
        await expectCode('SUBJECT_ENDED', () => queue.enqueue(acting, back, { subject: 'trip:soon' }));
        const full = Array.from({ length: 100 }, () => ({ type: acting, input: back, options: { queue: 'mail' } }));
        await expectCode('QUEUE_FULL', () => queue.enqueueMany(full)); // one waits there
        expect(await queue.remove('finished-return')).toMatchObject({ items: [{ outcome: 'held' }] });
        expect((await queue.stats()).queues['paused']).toMatchObject({ paused: true, pending: 1 });
      });

      test.each(namespaces)('tell what was retried and what was replaced (%s)', async (namespace) => {
        const { queue } = await reopened(version, engine, namespace);
        const retry = (await allJobs(queue)).find(({ retryOf }) => retryOf === 'finished-throw');
        expect((await queue.retry('finished-throw')).items).toEqual([
          { id: 'finished-throw', outcome: 'already_retried', newId: retry!.id },
        ]);
        const { items } = await queue.retry({ state: 'failed' }, { dryRun: true });
        expect(items.map(({ id }) => id)).not.toContain('finished-replaced');
        expect((await queue.stats()).queues['asleep']).toMatchObject({ replaced: 1 });
        expect(await queue.audit()).toMatchObject({ counts: [] });
        await queue.remove('finished-replaced');
        expect((await queue.stats()).total.replaced).toBe(0);
      });

      test.each(namespaces)('come to their end (%s)', async (namespace) => {
        const there = await reopened(version, engine, namespace);
        const { queue, boxes, folder } = there;
        await queue.resume('paused');
        await workLater(there, 2 * minute, 2 * hour);
        const running = ['runs', 'runs-again', 'runs-exclusively', 'runs-with-things'];
        for (const { id, state, stalls } of (await queue.find({ id: running })).items)
          expect({ id, state, stalls }).toEqual({ id, state: 'completed', stalls: 1 });
        expect(await queue.get('runs-cancelled')).toMatchObject({ state: 'cancelled' });
        expect(await queue.get('waits-for-retry')).toMatchObject({ state: 'failed', attempts: 2 });
        const waited = (await allJobs(queue)).filter(({ id }) => id.startsWith('waits-') && !unlikeOthers.includes(id));
        expect(waited).toHaveLength(12);
        for (const { id, state } of waited) expect({ id, state }).toEqual({ id, state: 'completed' });
        expect(boxes.names()).toHaveLength(1); // the one that is held for a month

        await workLater(there, day, 8 * day);
        expect((await queue.find({ queue: 'nights', state: 'completed' })).items.length).toBeGreaterThan(0);
        await queue.cancel('waits-snoozed');
        for (const name of ['nightly', 'often']) await queue.unschedule(name);
        await workLater(there, 40 * day, 2 * day);
        expect(boxes.names()).toEqual([]);
        expect(idsOf(await allJobs(queue))).toEqual(['act finished-return', ...Array(5).fill('kept'), reconciler]);
        await queue.release({ all: true });
        await queue.remove({ type: 'kept' });
        await queue.sweep();
        expect(idsOf(await allJobs(queue))).toEqual([reconciler]);
        expect(filesBelow(folder)).toEqual([]);
        expect(await queue.stats()).toMatchObject({ total: { pending: 0, completed: 0, failed: 0 }, leftBehind: 0 });
        expect(await queue.audit()).toMatchObject({ clean: true });
      });
    });

/** Not due yet, never done, failing again, or past its ttl. */
const unlikeOthers = ['waits-delayed', 'waits-dated', 'waits-snoozed', 'waits-for-retry', 'waits-for-a-day'];

/** Stays for as long as somebody opens the store with this kind of resource. */
const reconciler = 'lastout.compare.box';

interface There {
  readonly queue: Queue;
  readonly acting: ReturnType<typeof actingIn>;
  readonly boxes: ReturnType<typeof provider>;
  readonly clock: { at: number };
  readonly folder: string;
  readonly stored: Stored['namespaces'][Namespace];
}

/** A queue on these data, at the instant when they were taken. */
async function reopened(version: string, engine: StoredOn, namespace: Namespace, endsLeases = true): Promise<There> {
  const { data, namespaces: all } = readStored(version, engine);
  const stored = all[namespace];
  const folder = folderWith(stored.files);
  const clock = { at: Date.parse(stored.at), now: () => new Date(clock.at) };
  const boxes = provider('box', () => clock.now());
  for (const name of stored.boxes) boxes.inventory.set(name, clock.now());
  const url = await restore[engine](data);
  const resources = endsLeases ? [boxes.resource] : [];
  const options = { namespace, clock, artifacts: { dir: folder }, resources };
  const queue = closedAfterwards(await open(url, { ...options, ...(namespace === 'coded' && keptCodec) }));
  await queue.stopPeriodicCleanup();
  return { queue, acting: actingIn({ boxes, released: Promise.resolve() }), boxes, clock, folder, stored };
}

/** Moves the clock and lets everything happen that is due then, again and again. */
async function workLater({ queue, acting, clock }: There, ...afterMs: readonly number[]): Promise<void> {
  for (const ms of afterMs) {
    clock.at += ms;
    await queue.sweep();
    await queue.runUntilIdle([plain, kept, counted, acting]);
    await eventually('due leases have ended', async () => {
      const open = (await queue.leases.find()).items.filter(({ state }) => state !== 'ended');
      return open.every(({ expiresAt }) => expiresAt.getTime() > clock.at);
    });
    await queue.sweep();
  }
}

function idsOf(jobs: readonly Job[]): string[] {
  return jobs.map(({ id, type }) => (type === 'act' ? `${type} ${id}` : type)).sort();
}

/** Without the marker of the folder. */
function filesBelow(folder: string): string[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile() && entry.name !== 'store.json').map(({ name }) => name);
}
