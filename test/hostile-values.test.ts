// What callers give may be hostile: proxies and getters that throw, properties that are inherited, lists without end. It is
// read once, own properties only, and a refusal is always a LastoutError.
import { memoryUsage } from 'node:process';
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import {
  closeOnSignals,
  createSlots,
  defineJob,
  defineResource,
  type Job,
  open,
  type OpenOptions,
  type Queue,
} from '../src/index.js';
import { dockerContainers, dockerEngine } from '../src/resources/docker.js';
import { processResource } from '../src/resources/process.js';
import { postgresStore } from '../src/stores/postgres/index.js';
import { redisStore } from '../src/stores/redis/index.js';
import { sqliteStore } from '../src/stores/sqlite/index.js';
import { closedAfterwards, eachStore, expectCode, recordingLogger, refusalOf } from './support.js';

const mail = defineJob('mail', { run: () => null });
const never = defineResource('never', {
  create: async () => null,
  destroy: async () => undefined,
  list: async () => [],
});

/** Every question to it throws. */
function throwing(): never {
  const refuse = (): never => {
    throw new Error('a trap');
  };
  const traps = Object.fromEntries(Reflect.ownKeys(Reflect).map((name) => [name, refuse]));
  return new Proxy({}, traps) as never;
}

function revoked(): never {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy as never;
}

const withGetter =
  (...names: readonly string[]) =>
  (): never => {
    const get = (): never => {
      throw new Error('a getter');
    };
    return Object.defineProperty({}, names[0]!, { get, enumerable: true }) as never;
  };

type Call = (queue: Queue, bad: never) => unknown;

const opening =
  (name: keyof OpenOptions): Call =>
  (_, bad) =>
    open('memory:', { [name]: bad });

const ownOptions: { readonly [what: string]: readonly [option: string, Call] } = {
  open: ['cleanup', (_, bad) => open('memory:', bad)],
  'open cleanup': ['jobRetentionMs', opening('cleanup')],
  'open queues': ['mail', opening('queues')],
  'open limits': ['maxPending', (_, bad) => open('memory:', { queues: { mail: bad } })],
  'open rate': ['max', (_, bad) => open('memory:', { queues: { mail: { rate: bad } } })],
  'open artifacts': ['dir', opening('artifacts')],
  'open blobs': ['put', (_, bad) => open('memory:', { artifacts: { blobs: bad } })],
  'open logger': ['info', opening('logger')],
  'open codec': ['encode', opening('codec')],
  'open clock': ['now', opening('clock')],
  'open tracing': ['tracerProvider', opening('tracing')],
  'open tracer': ['getTracer', (_, bad) => open('memory:', { tracing: { tracerProvider: bad } })],
  'open alerts': ['rules', opening('alerts')],
  'open rules': ['noWorkers', (_, bad) => open('memory:', { alerts: { rules: bad } })],
  'open rule': ['above', (_, bad) => open('memory:', { alerts: { rules: { noWorkers: bad } } })],
  'open webhook': ['webhook', (_, bad) => open('memory:', { alerts: { notify: [bad] } })],
  'open headers': ['a', (_, bad) => open('memory:', { alerts: { notify: [{ webhook: 'http://a', headers: bad }] } })],
  defineJob: ['ttl', (_, bad) => defineJob('other', bad)],
  'defineJob input': ['~standard', (_, bad) => defineJob('other', { input: bad })],
  'defineJob backoff': ['type', (_, bad) => defineJob('other', { backoff: bad })],
  'defineJob keep': ['age', (_, bad) => defineJob('other', { keep: bad })],
  'defineJob keep of a state': ['age', (_, bad) => defineJob('other', { keep: { failed: bad } })],
  defineResource: ['create', (_, bad) => defineResource('other', bad)],
  enqueue: ['delay', (queue, bad) => queue.enqueue(mail, {}, bad)],
  'enqueue input': ['a', (queue, bad) => queue.enqueue(mail, bad)],
  'enqueue nested input': ['a', (queue, bad) => queue.enqueue(mail, { list: [1, bad] })],
  'enqueue metadata': ['a', (queue, bad) => queue.enqueue(mail, {}, { metadata: bad })],
  'enqueue runAt': ['a', (queue, bad) => queue.enqueue(mail, {}, { runAt: bad })],
  enqueueMany: ['type', (queue, bad) => queue.enqueueMany([bad])],
  'enqueueMany options': ['tx', (queue, bad) => queue.enqueueMany([{ type: mail, input: {}, options: bad }])],
  work: ['lease', (queue, bad) => queue.work([mail], bad)],
  runUntilIdle: ['for', (queue, bad) => queue.runUntilIdle([mail], bad)],
  find: ['type', (queue, bad) => queue.find(bad)],
  'find before': ['a', (queue, bad) => queue.find({ before: bad })],
  cancel: ['type', (queue, bad) => queue.cancel(bad)],
  'cancel options': ['reason', (queue, bad) => queue.cancel({ all: true }, bad)],
  retry: ['type', (queue, bad) => queue.retry(bad)],
  remove: ['type', (queue, bad) => queue.remove(bad)],
  reschedule: ['type', (queue, bad) => queue.reschedule(bad, { delay: 0 })],
  'reschedule to': ['delay', (queue, bad) => queue.reschedule({ all: true }, bad)],
  hold: ['type', (queue, bad) => queue.hold(bad, 'why')],
  'hold until': ['a', (queue, bad) => queue.hold({ all: true }, 'why', bad)],
  release: ['type', (queue, bad) => queue.release(bad)],
  wait: ['timeout', (queue, bad) => queue.wait('id', bad)],
  'wait signal': ['aborted', (queue, bad) => queue.wait('id', { signal: bad })],
  events: ['after', (queue, bad) => queue.events(bad)],
  'events signal': ['aborted', (queue, bad) => queue.events({ signal: bad })],
  schedule: ['cron', (queue, bad) => queue.schedule('a', mail, {}, bad)],
  'schedule options': ['ttl', (queue, bad) => queue.schedule('a', mail, {}, { every: '1h' }, bad)],
  'schedule input': ['a', (queue, bad) => queue.schedule('a', mail, bad, { every: '1h' })],
  plan: ['jobRetentionMs', (queue, bad) => queue.plan(bad)],
  ledger: ['limit', (queue, bad) => queue.ledger(bad)],
  lease: ['ttl', (queue, bad) => queue.lease(never, null, bad)],
  leases: ['state', (queue, bad) => queue.leases.find(bad)],
  defineSubject: ['every', (queue, bad) => queue.defineSubject('trip', bad)],
  'defineSubject brake': [
    'share',
    (queue, bad) => queue.defineSubject('trip', { check: async () => [], every: '1h', brake: bad }),
  ],
  endSubject: ['fence', (queue, bad) => queue.endSubject('trip:1', 'why', bad)],
  close: ['grace', (queue, bad) => queue.close(bad)],
  'open of a store': ['open', (_, bad) => open(bad)],
  closeOnSignals: ['close', (_, bad) => closeOnSignals(bad)],
  'closeOnSignals options': ['grace', (queue, bad) => closeOnSignals(queue, bad)],
  createSlots: ['maxConcurrent', (_, bad) => createSlots(bad)],
  'createSlots acquire': ['aborted', (_, bad) => createSlots({ maxConcurrent: 1, maxWaiting: 1 }).acquire(bad)],
  sqliteStore: ['file', (_, bad) => sqliteStore(bad)],
  'sqliteStore db': ['prepare', (_, bad) => sqliteStore({ db: bad })],
  'sqliteStore options': ['synchronous', (_, bad) => sqliteStore({ file: 'a' }, bad)],
  postgresStore: ['url', (_, bad) => postgresStore(bad)],
  'postgresStore pool': ['connect', (_, bad) => postgresStore({ pool: bad })],
  'postgresStore options': ['max', (_, bad) => postgresStore({ url: 'postgres://a' }, bad)],
  redisStore: ['url', (_, bad) => redisStore(bad)],
  'redisStore options': ['host', (_, bad) => redisStore({ options: bad })],
  'redisStore client': ['duplicate', (_, bad) => redisStore({ client: bad })],
  dockerEngine: ['host', (_, bad) => dockerEngine(bad)],
  dockerContainers: ['kind', (_, bad) => dockerContainers(bad)],
  processResource: ['grace', (_, bad) => processResource(bad)],
  'process spec': ['command', (queue, bad) => queue.lease(processResource(), bad, { ttl: '1m' })],
};

describe('a getter or a proxy that throws is refused with a code', () => {
  const cases = Object.entries(ownOptions).flatMap(([what, [option, call]]) => [
    [`${what}: a getter`, call, withGetter(option)] as const,
    [`${what}: a proxy`, call, throwing] as const,
    [`${what}: a revoked proxy`, call, revoked] as const,
  ]);
  it.each(cases)('%s', async (_, call, bad) => {
    const queue = closedAfterwards(await open('memory:'));
    await refusalOf(() => call(queue, bad()));
  });

  const lists: { readonly [what: string]: Call } = {
    types: opening('types'),
    resources: opening('resources'),
    notify: (_, bad) => open('memory:', { alerts: { notify: bad } }),
    enqueueMany: (queue, bad) => queue.enqueueMany(bad),
    work: (queue, bad) => queue.work(bad),
    'queues of work': (queue, bad) => queue.work([mail], { queues: bad }),
    'state of a filter': (queue, bad) => queue.find({ state: bad }),
    'args of a process': (queue, bad) => queue.lease(processResource(), { command: 'true', args: bad }, { ttl: '1m' }),
  };
  const badLists: { readonly [what: string]: () => unknown } = {
    'of length 2^32 - 1': () => Object.assign([], { length: 2 ** 32 - 1 }),
    'with holes': () => Array(2),
    'that grows': () =>
      new Proxy([], {
        get: (list, name) => (name === 'length' ? list.push(undefined as never) + 1 : list[name as never]),
      }),
    'that is a revoked proxy': revoked,
  };
  const all = Object.entries(lists).flatMap(([what, call]) =>
    Object.entries(badLists).map(([how, bad]) => [`${what}: a list ${how}`, call, bad] as const),
  );
  it.each(all)('%s', async (_, call, bad) => {
    const queue = closedAfterwards(await open('memory:'));
    await refusalOf(() => call(queue, bad() as never));
  });
});

it('a store of somebody else that answers nothing, or breaks, is refused with a code and without its secrets', async () => {
  const stores: { readonly [what: string]: (() => unknown) | undefined } = {
    nothing: async () => null,
    'an empty object': async () => ({}),
    'an error': async () => Promise.reject(new Error('postgres://u:hunter2@h is away')),
    'an error at once': () => {
      throw new Error('postgres://u:hunter2@h is away');
    },
    'what is no error': () => Promise.reject(Symbol('odd')),
  };
  for (const [what, opening] of Object.entries(stores)) {
    const refusal = await refusalOf(() => open({ engine: 'mine', open: opening } as never));
    expect(['INVALID_URL', 'STORE_UNAVAILABLE'], what).toContain(refusal.code);
    expect(inspect(refusal), what).not.toContain('hunter2');
  }
});

it('the body of an artifact that cannot be read is refused with a code', async () => {
  const codes: unknown[] = [];
  const type = defineJob('put', {
    async run({ artifact }) {
      for (const body of [throwing(), revoked(), { [Symbol.asyncIterator]: 1 }, null])
        codes.push((await refusalOf(() => artifact.put('x', body as never))).code);
    },
  });
  const queue = closedAfterwards(await open('memory:', { artifacts: 'memory' }));
  await queue.work([type]);
  await queue.wait((await queue.enqueue(type, null as never)).id, { timeout: '10s' });
  expect(codes).toEqual(codes.map(() => 'UNSERIALIZABLE'));
  expect(codes).toHaveLength(4);
});

it('a key with a dot is no path, and a message names a long path in short', async () => {
  const queue = closedAfterwards(await open('memory:'));
  await queue.enqueue('dotted', { 'a.constructor': { prototype: 1 } });
  expect((await refusalOf(() => queue.enqueue('x', { constructor: { prototype: 1 } } as never))).code).toBe(
    'FORBIDDEN_KEY',
  );
  const long = { ['k'.repeat(50_000)]: { ['m'.repeat(50_000)]: { n: () => 1 } } };
  const { code, message } = await refusalOf(() => queue.enqueue('x', long as never));
  expect(code).toBe('UNSERIALIZABLE');
  expect(message.length).toBeLessThan(400);
});

describe('what is inherited was not given', () => {
  eachStore((on) => {
    it('an act by a filter that inherits all: true names nothing', async () => {
      const queue = await on.open();
      const { id } = await queue.enqueue(mail, {});
      const inherited = Object.create({ all: true }) as { all: true };
      for (const act of [
        () => queue.cancel(inherited),
        () => queue.retry(inherited),
        () => queue.remove(inherited),
        () => queue.reschedule(inherited, { delay: '1h' }),
        () => queue.hold(inherited, 'why'),
        () => queue.release(inherited),
      ])
        await expectCode('FILTER_REQUIRED', act);
      expect(await queue.get(id)).toMatchObject({ state: 'pending' } satisfies Partial<Job>);
    });
  });

  it('options are own properties', async () => {
    const queue = closedAfterwards(await open('memory:'));
    const inherits = <T extends object>(options: T): T => Object.create(options) as T;
    const { id } = await queue.enqueue(mail, {}, inherits({ delay: '1h', id: 'chosen' } as const));
    expect(id).not.toBe('chosen');
    const { matched } = await queue.cancel({ type: 'mail' }, inherits({ dryRun: true }));
    expect(matched).toBe(1);
    expect(await queue.get(id)).toMatchObject({ state: 'cancelled' });
    const other = defineJob('other', inherits({ run: () => null }));
    await expectCode('UNKNOWN_TYPE', () => queue.work([other]));
  });
});

describe('a payload is refused before it is copied', () => {
  const big = 'x'.repeat(256 * 1024);
  const list = (length: number): unknown[] => Object.assign([], { length });
  it.each([
    ['a list of length 2^32 - 1', 'PAYLOAD_TOO_LARGE', () => list(2 ** 32 - 1)],
    ['a nested list of length 2^32 - 1', 'PAYLOAD_TOO_LARGE', () => ({ a: [{ b: list(2 ** 32 - 1) }] })],
    ['a list with one item at its end', 'PAYLOAD_TOO_LARGE', () => Object.assign(list(0), { [2 ** 32 - 2]: 1 })],
    ['a list with a hole', 'UNSERIALIZABLE', () => Object.assign([1], { 2: 3 })],
    ['a long list of nothing', 'UNSERIALIZABLE', () => list(256 * 1024 - 1)],
    ['one text many times', 'PAYLOAD_TOO_LARGE', () => Array.from({ length: 5_000 }, () => big)],
    ['one key many times', 'PAYLOAD_TOO_LARGE', () => Array.from({ length: 5_000 }, () => ({ [big]: 1 }))],
    [
      'a list that grows while it is read',
      'UNSERIALIZABLE',
      () => new Proxy([1], { get: (items, name) => (name === 'length' ? items.length++ + 2 : items[name as never]) }),
    ],
  ] as const)('%s', async (_, code, make) => {
    const queue = closedAfterwards(await open('memory:'));
    const input = make();
    const before = memoryUsage().heapUsed;
    await expectCode(code, () => queue.enqueue('mail', input));
    expect(memoryUsage().heapUsed - before).toBeLessThan(100_000_000);
  });
});

describe('a flag is true, false or left out', () => {
  const odd: readonly unknown[] = [
    ...['false', '', 'yes', 0, 1, Number.NaN, null, {}, [], Symbol('a'), 1n, new Boolean(false)],
    Object.assign([], { length: 2 ** 32 - 1 }),
    throwing(),
  ];

  eachStore((on) => {
    it('of an act: nothing is changed', async () => {
      const queue = await on.open();
      const [waiting, failed] = ['waiting', 'failed'];
      await queue.enqueue(mail, {}, { id: waiting, delay: '1h' });
      await queue.enqueue(mail, {}, { id: failed, delay: '1h' });
      await queue.cancel(failed);
      const before = [await queue.get(waiting), await queue.get(failed)];
      for (const bad of odd as never[]) {
        for (const flag of ['force', 'dryRun'])
          for (const act of [
            () => queue.cancel(waiting, { [flag]: bad }),
            () => queue.remove(failed, { [flag]: bad }),
            () => queue.remove({ all: true }, { [flag]: bad }),
            () => queue.retry(failed, { [flag]: bad }),
            () => queue.reschedule(waiting, { delay: 0 }, { [flag]: bad }),
          ])
            await expectCode('UNKNOWN_OPTION', act);
        await expectCode('UNKNOWN_OPTION', () => queue.retry(failed, { again: bad }));
      }
      expect([await queue.get(waiting), await queue.get(failed)]).toEqual(before);
      expect((await queue.find()).items).toHaveLength(2);
    });
  });

  const flags: { readonly [what: string]: Call } = {
    metrics: opening('metrics'),
    useCompletedTime: (_, bad) => open('memory:', { cleanup: { useCompletedTime: bad } }),
    required: (_, bad) => open('memory:', { codec: { encode: String, decode: String, required: bad } }),
    checkSubject: (_, bad) => defineJob('other', { checkSubject: bad }),
    unref: (queue, bad) => queue.work([mail], { unref: bad }),
    'artifacts of endSubject': (queue, bad) => queue.endSubject('trip:1', 'why', { artifacts: bad }),
    listen: (_, bad) => postgresStore({ url: 'postgres://a' }, { listen: bad }),
    all: (queue, bad) => queue.cancel({ all: bad }),
  };
  it.each(Object.entries(flags))('%s', async (_, call) => {
    const queue = closedAfterwards(await open('memory:'));
    for (const bad of odd as never[]) await refusalOf(() => call(queue, bad));
  });
});

it('a whole number is one that every store can keep', async () => {
  const check = async () => [];
  for (const bad of [1e308, 2 ** 53, 1.5, -1, Number.NaN]) {
    await expectCode('INVALID_RETENTION', () => open('memory:', { cleanup: { maxStoredJobs: bad } }));
    await refusalOf(() => createSlots({ maxConcurrent: bad, maxWaiting: 1 }));
    const queue = closedAfterwards(await open('memory:'));
    await expectCode('INVALID_RETENTION', () => queue.plan({ maxStoredJobs: bad }));
    await refusalOf(() => queue.defineSubject('trip', { check, every: '1h', brake: { share: 0.5, atLeast: bad } }));
  }
});

describe('a tx that cannot be read is no transaction', () => {
  eachStore((on) => {
    it('nothing was sent', async () => {
      const queue = await on.open();
      for (const tx of [throwing(), revoked(), withGetter('query')(), withGetter('prepare')()])
        await expectCode('INVALID_TRANSACTION', () => queue.enqueue(mail, {}, { tx }));
      expect((await queue.find()).items).toEqual([]);
    });
  });
});

describe('a schema that answers nonsense refuses the input', () => {
  const long: unknown[] = Object.assign([], { length: 2 ** 32 - 1 });
  const answers: { readonly [what: string]: () => unknown } = {
    null: () => null,
    nothing: () => undefined,
    'a text': () => 'abc',
    'a promise of null': async () => null,
    'a promise that rejects': () => Promise.reject(new Error('no')),
    'a proxy': throwing,
    'a promise of a proxy': async () => ({ issues: throwing() }),
    'issues as a text': () => ({ issues: 'abc' }),
    'issues without end': () => ({ issues: long }),
    'an issue that is null': () => ({ issues: [null] }),
    'an issue that is a proxy': () => ({ issues: [throwing()] }),
    'a path with null': () => ({ issues: [{ message: 'm', path: [null] }] }),
    'a path with a proxy': () => ({ issues: [{ message: 'm', path: [throwing()] }] }),
    'a path without end': () => ({ issues: [{ message: 'm', path: long }] }),
    'a path that is like a list': () => ({ issues: [{ message: 'm', path: { length: 1e9 } }] }),
    'a path of long keys': () => ({ issues: [{ message: 'm', path: Array(1_000).fill('k'.repeat(100_000)) }] }),
    'a symbol as message': () => ({ issues: [{ message: Symbol('m') }] }),
    'a message without end': () => ({ issues: [{ message: 'm'.repeat(10_000_000) }] }),
  };
  it.each(Object.entries(answers))('%s', async (_, validate) => {
    const queue = closedAfterwards(await open('memory:'));
    const input = { '~standard': { version: 1, vendor: 'odd', validate } } as const;
    const { message, details } = await expectCode('INVALID_INPUT', () =>
      queue.enqueue(defineJob('odd', { input }), {}),
    );
    expect(message.length + JSON.stringify(details ?? {}).length).toBeLessThan(20_000);
  });
});

describe('what events and on are given is looked at in the call', () => {
  const odd: readonly unknown[] = [1, {}, [], true, Symbol('a'), () => null, throwing(), { then: () => null }];
  it.each([
    ['after', 'INVALID_CURSOR', odd],
    ['type', 'INVALID_NAME', [...odd, '', 'no name', null]],
    ['subject', 'INVALID_KEY', [...odd, '', 'trip', null]],
  ] as const)('%s', async (name, code, values) => {
    const queue = closedAfterwards(await open('memory:'));
    for (const bad of values) await expectCode(code, () => queue.events({ [name]: bad }));
  });

  it('the name of an event', async () => {
    const queue = closedAfterwards(await open('memory:'));
    for (const bad of [...odd, '', 'nothing', '__proto__', null, undefined])
      await expectCode('UNKNOWN_OPTION', () => queue.on(bad as never, () => undefined));
  });
});

it('a check that is a hostile function, and an empty list of Sentinels, are refused', async () => {
  const queue = closedAfterwards(await open('memory:'));
  const get = (): never => {
    throw new Error('a trap');
  };
  const check = new Proxy(async () => [], { get });
  await expectCode('INVALID_INPUT', () => queue.defineSubject('trip', { check, every: '1h' }));
  await expectCode('INVALID_URL', () => redisStore({ options: { sentinels: [], name: 'm' } }));
});

it('a check that answers with holes has told nothing, and is told of', async () => {
  const { lines, logger } = recordingLogger();
  const queue = closedAfterwards(await open('memory:', { logger }));
  await queue.enqueue(mail, {}, { subject: 'trip:1' });
  queue.defineSubject('trip', { check: async (ids) => Array(ids.length) as never, every: '1h' });
  await queue.sweepSubjects('trip');
  expect(lines.map(({ message }) => message)).toContain('A check of subjects told nothing; they are kept');
});
