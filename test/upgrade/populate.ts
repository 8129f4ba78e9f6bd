/** Fills a store with every kind of row that there is, through the public calls alone. */
import type { Codec, OpenOptions, Queue } from '../../src/index.js';
import { open } from '../../src/index.js';
import { type FakeClock, fakeClock } from '../../src/testing/index.js';
import { provider } from '../leases-support.js';
import { type Act, actingIn, counted, kept, plain, type Surroundings } from './jobs.js';

export const populatedAt = new Date('2026-01-01T00:00:00Z');
export const limits: NonNullable<OpenOptions['queues']> = {
  mail: { maxPending: 100, concurrency: 2, rate: { max: 10, per: '1m' } },
  bulk: { maxPending: 1_000 },
};

export interface Place {
  readonly url: string;
  readonly dir: string;
  readonly namespace: string;
  readonly codec?: Codec;
}

export interface Populated {
  readonly queue: Queue;
  readonly clock: FakeClock;
  readonly boxes: readonly string[];
  close(): Promise<void>;
}

export async function populate({ url, dir, namespace, codec }: Place): Promise<Populated> {
  const clock = fakeClock(populatedAt);
  const boxes = provider('box', () => clock.now());
  let release = (): void => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const queue = await open(url, {
    namespace,
    clock,
    artifacts: { dir },
    queues: limits,
    resources: [boxes.resource],
    ...(codec && { codec }),
  });
  const world: World = { queue, clock, boxes, released, acting: actingIn({ boxes, released }) };
  await finish(world);
  await keepAndRemove(world);
  await schedule(world);
  await lease(world);
  await endSubjects(world);
  await wait(world);
  await run(world);
  await clock.settle();
  return {
    queue,
    clock,
    boxes: boxes.names(),
    async close() {
      release();
      await clock.settle();
      let closed = false;
      const closing = queue.close().finally(() => (closed = true));
      while (!closed) await clock.advance(100); // what the attempts have leased ends by the clock
      await closing;
    },
  };
}

interface World extends Surroundings {
  readonly queue: Queue;
  readonly clock: FakeClock;
  readonly acting: ReturnType<typeof actingIn>;
}

/** Jobs in each finished state, plain and other ones. */
async function finish({ queue, clock, acting }: World): Promise<void> {
  for (let n = 0; n < 5; n++) await queue.enqueue(plain, { n });
  await queue.enqueueMany(Array.from({ length: 25 }, (_, n) => ({ type: plain, input: { n: 100 + n } })));
  for (let n = 0; n < 5; n++) {
    await queue.enqueue(kept, { n });
    await queue.enqueue(counted, { n }, { queue: 'mail' });
  }
  const acts: readonly Act[] = ['return', 'fail', 'cancel', 'talk', 'artifacts'];
  for (const act of acts)
    await queue.enqueue(
      acting,
      { act, text: 'finished' },
      { id: `finished-${act}`, subject: 'site:docs', source: 'test' },
    );
  await queue.enqueue(
    acting,
    { act: 'throw', text: 'once only' },
    { id: 'finished-throw', attempts: 1, metadata: { a: [1, null] } },
  );
  await queue.enqueue(
    acting,
    { act: 'return' },
    { id: 'finished-expired', ttl: '1s', delay: '500ms', queue: 'asleep' },
  );
  const replacing = { deduplication: 'replace', deduplicationKey: 'finished', queue: 'asleep' } as const;
  await queue.enqueue(acting, { act: 'return' }, { ...replacing, id: 'finished-replaced' });
  await queue.enqueue(acting, { act: 'return' }, { ...replacing, id: 'finished-replacing' });
  await queue.cancel('finished-replacing', { reason: 'by hand' });
  const worker = await queue.work([plain, kept, counted, acting], { queues: ['default', 'mail'] });
  await clock.advance('3s');
  await worker.stop();
  await queue.sweep();
}

async function keepAndRemove({ queue, acting }: World): Promise<void> {
  await queue.hold('finished-return', 'under investigation');
  await queue.hold({ type: 'kept' }, 'until the audit', new Date(populatedAt.getTime() + 90 * 86_400_000));
  await queue.retry('finished-throw');
  await queue.enqueue(acting, { act: 'return', text: 'to be removed' }, { id: 'removed', delay: '1d' });
  await queue.remove('removed', { reason: 'asked for' });
}

async function schedule({ queue, clock, acting }: World): Promise<void> {
  const when = { cron: '0 3 * * *', timeZone: 'Europe/Berlin', missed: 'all' } as const;
  await queue.schedule('nightly', acting, { act: 'return', text: 'night' }, when, { queue: 'nights' });
  await queue.schedule('often', plain, { n: 7 }, { every: '10m' }, { queue: 'often', subject: 'site:often' });
  await clock.advance('10m');
}

/** One that is held, and one that cannot be destroyed. */
async function lease({ queue, clock, boxes }: World): Promise<void> {
  await queue.lease(boxes.resource, { size: 1 }, { ttl: '30d', subject: 'trip:held' });
  boxes.before = async (step) => {
    if (step === 'destroy') throw new Error('the provider is away');
  };
  await queue.lease(boxes.resource, { size: 2 }, { ttl: '5s' });
  await clock.advance('1m');
}

async function endSubjects({ queue, acting }: World): Promise<void> {
  await queue.enqueue(acting, { act: 'return' }, { id: 'fenced', subject: 'trip:over', delay: '1h' });
  await queue.endSubject('trip:over', 'the trip is over', { fence: 'forever' });
  await queue.endSubject('trip:soon', 'the trip is over', { fence: '30d' });
}

/** Jobs in every place where they can wait. */
async function wait({ queue, clock, acting }: World): Promise<void> {
  await queue.enqueue(acting, { act: 'throw', text: 'first attempt' }, { id: 'waits-for-retry', queue: 'once' });
  await queue.enqueue(acting, { act: 'snooze' }, { id: 'waits-snoozed', queue: 'once' });
  const once = await queue.work([acting], { queues: ['once'] });
  await clock.advance('1s');
  await once.stop();

  for (let n = 0; n < 5; n++) await queue.enqueue(plain, { n: 200 + n });
  await queue.enqueueMany(Array.from({ length: 15 }, (_, n) => ({ type: plain, input: { n: 300 + n } })));
  const back: { readonly act: Act } = { act: 'return' };
  await queue.enqueue(acting, back, {
    id: 'waits-first',
    priority: -10,
    metadata: { deep: { list: ['é', '漢字', '🚚'] } },
  });
  await queue.enqueue(acting, back, { id: 'waits-delayed', delay: '1d' });
  await queue.enqueue(acting, back, {
    id: 'waits-dated',
    runAt: new Date(populatedAt.getTime() + 7 * 86_400_000),
    priority: 5,
  });
  await queue.enqueue(acting, back, { id: 'waits-for-a-day', ttl: '1d', timeout: '30s', delay: '12h' });
  await queue.enqueue(acting, { act: 'return', text: 'x'.repeat(10_000) }, { id: 'waits-large', source: 'import' });
  await queue.enqueue(
    acting,
    { act: 'return', text: 'line\nquote " backslash \\ é 漢字 🚚' },
    { id: 'waits-odd-text', subject: 'trip:%_*' },
  );
  for (const deduplication of ['skip', 'replace', 'coalesce'] as const)
    await queue.enqueue(acting, back, {
      id: `waits-${deduplication}`,
      deduplication,
      deduplicationKey: `key of ${deduplication}`,
    });
  for (const n of [1, 2, 3])
    await queue.enqueue(acting, back, { id: `waits-exclusive-${n}`, exclusiveKey: 'one', subject: 'site:one' });
  await queue.enqueue(acting, back, { id: 'waits-paused', queue: 'paused' });
  await queue.enqueue(acting, back, { id: 'waits-mail', queue: 'mail' });
  await queue.pause('paused');
}

/** A worker that is in the middle of its work: plain jobs and others under a claim, things that they hold, requests to them. */
async function run({ queue, clock, acting }: World): Promise<void> {
  const options = { queue: 'running' } as const;
  await queue.enqueue(acting, { act: 'stay' }, { ...options, id: 'runs' });
  await queue.enqueue(acting, { act: 'stay' }, { ...options, id: 'runs-cancelled' });
  await queue.enqueue(
    acting,
    { act: 'stay' },
    { ...options, id: 'runs-again', deduplication: 'coalesce', deduplicationKey: 'again' },
  );
  await queue.enqueue(acting, { act: 'stay' }, { ...options, id: 'runs-exclusively', exclusiveKey: 'running' });
  await queue.enqueue(acting, { act: 'return' }, { ...options, id: 'waits-behind', exclusiveKey: 'running' });
  await queue.enqueue(acting, { act: 'stay with things' }, { ...options, id: 'runs-with-things' });
  await queue.work([acting], { queues: ['running'], concurrency: 5, name: 'busy' });
  await clock.advance('1s');
  await queue.cancel('runs-cancelled', { reason: 'no longer wanted' });
  await queue.enqueue(acting, { act: 'stay' }, { ...options, deduplication: 'coalesce', deduplicationKey: 'again' });
}
