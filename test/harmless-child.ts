/** A program whose callbacks all throw or reject, and that has to live: `node harmless-child.js MODE URL`. */
import { defineJob, defineResource, open, type OpenOptions, type Queue } from '../src/index.js';

const [mode = '', url = ''] = process.argv.slice(2);
const say = (word: string): void => void process.stdout.write(`${word}\n`);
const boom = (): never => {
  throw new Error('boom');
};
/** Typed as what a caller takes for synchronous. */
const reject = (async () => boom()) as unknown as () => never;

/** Every way in which somebody can listen to a signal, and throw. */
function listenBadly(signal: AbortSignal): void {
  signal.addEventListener('abort', boom);
  signal.addEventListener('abort', reject, { once: true });
  signal.addEventListener('abort', { handleEvent: boom });
  signal.onabort = boom;
}
const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));

/** Whatever was thrown aside has had its turn. */
const aWhile = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 50));

async function run(options: OpenOptions, act: (queue: Queue) => Promise<unknown>): Promise<void> {
  const queue = await open(url, options);
  await act(queue);
  await aWhile();
  await queue.close();
  await aWhile();
  say('lived');
}

const modes: Record<string, () => Promise<void>> = {
  logger: () => run({ logger: { debug: boom, info: boom, warn: boom, error: boom } }, (queue) => queue.sweep()),
  asyncLogger: () =>
    run({ logger: { debug: reject, info: reject, warn: reject, error: reject } }, (queue) => queue.sweep()),
  listener: () =>
    run({ logger: { debug: reject, info: reject, warn: reject, error: boom } }, async (queue) => {
      queue.on('created', boom);
      queue.on('created', reject);
      const told = new Promise<void>((resolve) => queue.on('created', () => resolve()));
      await queue.enqueue('any', null);
      await told;
    }),
  abort: () =>
    run({}, async (queue) => {
      const type = defineJob<null>('aborted', {
        timeout: 20,
        attempts: 1,
        async run({ signal }) {
          listenBadly(signal);
          await aborted(signal);
        },
      });
      await queue.work([type]);
      const { id } = await queue.enqueue(type, null);
      await queue.wait(id);
    }),
  resource: () =>
    run({}, async (queue) => {
      const resource = defineResource<null>('hangs', {
        async create(_spec, { signal }) {
          listenBadly(signal);
          started();
          await aborted(signal);
          return null;
        },
        destroy: async () => boom(),
        list: async () => boom(),
      });
      let started!: () => void;
      const creating = new Promise<void>((resolve) => (started = resolve));
      void queue.lease(resource, null, { ttl: '1m' }).catch(() => undefined);
      await creating;
    }),
  subject: () =>
    run({}, async (queue) => {
      let asked!: () => void;
      const asking = new Promise<void>((resolve) => (asked = resolve));
      queue.defineSubject('trip', {
        async check(_ids, signal) {
          listenBadly(signal);
          asked();
          return new Promise(() => undefined);
        },
        every: '1s',
      });
      await queue.enqueue('any', null, { subject: 'trip:1' });
      void queue.sweepSubjects('trip').catch(() => undefined);
      await asking;
    }),
  notifier: () =>
    run({ alerts: { rules: { noWorkers: { pending: 0 } }, notify: [boom, reject] } }, async (queue) => {
      await queue.enqueue('any', null);
      say((await queue.alerts()).map(({ state }) => state).join());
    }),
  clock: async () => {
    let broken = false;
    const clock = { now: () => (broken ? boom() : new Date()) };
    await run({ clock }, async (queue) => {
      const type = defineJob<null>('ticks', { run: ({ progress }) => progress(1) });
      await queue.work([type], { heartbeat: 100, lease: '1s', poll: 10 });
      await queue.enqueue(type, null);
      broken = true;
      await queue.enqueue(type, null);
      await queue.sweep();
      await aWhile();
    });
  },
  codec: () =>
    run({ codec: { encode: reject, decode: reject }, logger: false }, async (queue) => {
      await refused('UNSERIALIZABLE', queue.enqueue('any', null));
    }),
  decode: () =>
    run({ codec: { encode: (text) => text, decode: reject }, logger: false }, async (queue) => {
      const { id } = await queue.enqueue('any', { a: 1 });
      await queue.get(id);
    }),
  openClock: async () => {
    await refused('UNKNOWN_OPTION', open(url, { clock: { now: reject } }));
    await aWhile();
    say('lived');
  },
  asyncClock: async () => {
    let broken = false;
    const clock = { now: () => (broken ? reject() : new Date()) };
    await run({ clock, logger: false }, async (queue) => {
      broken = true;
      await queue.enqueue('any', null);
    });
  },
  blobs: () => {
    const blobs = { put: reject, read: reject, delete: reject, list: reject, used: reject };
    return run({ artifacts: { blobs }, logger: false }, (queue) => queue.sweep());
  },
  derived: () =>
    run({}, async (queue) => {
      for (const name of ['subject', 'deduplicationKey', 'exclusiveKey', 'id'])
        await refused('INVALID', queue.enqueue(defineJob(`by-${name}`, { [name]: reject }), null));
    }),
  backoff: () =>
    run({ logger: false }, async (queue) => {
      const type = defineJob<null>('fails', { attempts: 2, backoff: reject, run: boom });
      await queue.work([type]);
      await queue.enqueue(type, null);
      await aWhile();
    }),
};

async function refused(code: string, call: Promise<unknown>): Promise<void> {
  const why = await call.then(
    () => 'accepted',
    (error: { code?: string }) => error.code ?? 'no code',
  );
  if (!why.startsWith(code)) say(why);
}

await modes[mode]!();
