// What is refused, with which code, on every store alike; and that a refused call changes nothing. The numbers are the
// rows of the table of bad inputs.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { byteLength } from '../src/core/json.js';
import { type Code, defineJob, type JobOptions, open, type Queue } from '../src/index.js';
import { closedAfterwards, eachStore, expectCode, refusalOf } from './support.js';

const day = 86_400_000;

function nested(levels: number, innermost: unknown = 1): unknown {
  let value = innermost;
  for (let i = 0; i < levels; i++) value = i % 2 === 0 ? [value] : { a: value };
  return value;
}

function cyclic(): object {
  const node: { self?: object; name: string } = { name: 'node' };
  node.self = { back: [node] };
  return node;
}

class Money {
  constructor(readonly cents: number) {}
}

type Row = readonly [row: number, what: string, code: Code, call: (queue: Queue) => unknown, says?: readonly string[]];

const withInput = (row: number, what: string, code: Code, input: unknown, ...says: string[]): Row => [
  row,
  what,
  code,
  (queue) => queue.enqueue('mail', input),
  says,
];
const withOption = (row: number, code: Code, options: object, ...says: string[]): Row => [
  row,
  Object.entries(options)
    .map(([name, value]) => `${name} ${brief(value)}`)
    .join(', '),
  code,
  (queue) => queue.enqueue('mail', 1, options),
  says,
];
function brief(value: unknown): string {
  const text =
    typeof value === 'string'
      ? JSON.stringify(value)
      : value instanceof Date
        ? 'Date'
        : Array.isArray(value)
          ? '[]'
          : String(value);
  return text.length > 40 ? `${text.slice(0, 30)}… (${text.length})` : text;
}

const inputs: readonly Row[] = [
  withInput(5, '65 levels', 'PAYLOAD_TOO_DEEP', nested(65), '64'),
  withInput(5, '200,000 levels', 'PAYLOAD_TOO_DEEP', nested(200_000), '64'),
  withInput(6, 'the key __proto__', 'FORBIDDEN_KEY', JSON.parse('{"__proto__":{"admin":true}}'), '__proto__'),
  withInput(6, 'a nested key __proto__', 'FORBIDDEN_KEY', JSON.parse('{"a":[{"__proto__":1}]}'), 'input.a[0]'),
  withInput(6, 'constructor.prototype', 'FORBIDDEN_KEY', JSON.parse('{"constructor":{"prototype":{}}}'), 'prototype'),
  withInput(8, 'a NUL', 'UNSTORABLE_TEXT', { a: ['b\0c'] }, 'input.a[0]', 'NUL'),
  withInput(8, 'a NUL alone', 'UNSTORABLE_TEXT', '\0'),
  withInput(8, 'a NUL in a key', 'UNSTORABLE_TEXT', { 'a\0b': 1 }, 'key'),
  withInput(9, 'a lone high surrogate', 'UNSTORABLE_TEXT', { a: '\ud83d' }, 'input.a', 'surrogate'),
  withInput(9, 'a lone low surrogate', 'UNSTORABLE_TEXT', 'x\ude00y'),
  withInput(9, 'a lone surrogate in a key', 'UNSTORABLE_TEXT', { '\ud83d': 1 }),
  withInput(10, '2^53', 'UNSAFE_INTEGER', { n: 2 ** 53 }, 'input.n', 'string'),
  withInput(10, '-2^53', 'UNSAFE_INTEGER', -(2 ** 53)),
  withInput(10, '1e300', 'UNSAFE_INTEGER', [1e300], 'input[0]'),
  withInput(11, 'undefined', 'UNSERIALIZABLE', undefined, 'input is undefined'),
  withInput(11, 'undefined in a list', 'UNSERIALIZABLE', { a: [undefined] }, 'input.a[0] is undefined'),
  withInput(11, 'a hole in a list', 'UNSERIALIZABLE', Array(2), 'input[0]'),
  withInput(11, 'a function', 'UNSERIALIZABLE', { f: () => 1 }, 'input.f is a function'),
  withInput(11, 'a symbol', 'UNSERIALIZABLE', Symbol('x'), 'symbol'),
  withInput(11, 'a symbol as key', 'UNSERIALIZABLE', { [Symbol('x')]: 1 }, 'symbol'),
  withInput(11, 'a BigInt', 'UNSERIALIZABLE', { n: 5n }, 'input.n is a bigint'),
  withInput(11, 'a cycle', 'UNSERIALIZABLE', cyclic(), 'input.self.back[0]', 'itself'),
  withInput(11, 'a Date', 'UNSERIALIZABLE', { at: new Date(0) }, 'input.at', 'use toISOString()'),
  withInput(11, 'a Map', 'UNSERIALIZABLE', { m: new Map() }, 'input.m is a Map'),
  withInput(11, 'a Set', 'UNSERIALIZABLE', new Set([1]), 'input is a Set'),
  withInput(11, 'bytes', 'UNSERIALIZABLE', new Uint8Array(2), 'Uint8Array'),
  withInput(11, 'an instance of a class', 'UNSERIALIZABLE', [new Money(5)], 'input[0] is a Money'),
  withInput(11, 'NaN', 'UNSERIALIZABLE', { n: Number.NaN }, 'input.n is NaN'),
  withInput(11, 'Infinity', 'UNSERIALIZABLE', Number.POSITIVE_INFINITY, 'Infinity'),
  withInput(11, 'an object that turns itself into something else', 'UNSERIALIZABLE', hiding({}, undefined), 'toJSON'),
  withInput(11, 'a list that turns itself into something else', 'UNSERIALIZABLE', hiding([1], [2]), 'toJSON'),
  withInput(12, 'one byte above 256 KiB', 'PAYLOAD_TOO_LARGE', 'x'.repeat(256 * 1024 - 1), '262145', '262144'),
  withInput(12, 'few characters, many bytes', 'PAYLOAD_TOO_LARGE', '€'.repeat(100_000), '300002', '262144'),
];

/** JSON.stringify would store what toJSON returns, not what was looked at. */
function hiding<T extends object>(value: T, instead: unknown): T {
  return Object.defineProperty(value, 'toJSON', { value: () => instead, enumerable: false });
}

const types: readonly Row[] = [
  ...[undefined, null, '', 5, {}, { name: 'mail' }].map(
    (type): Row => [
      13,
      `type ${brief(type)}`,
      'TYPE_REQUIRED',
      (queue) => queue.enqueue(type as never, 1),
      ['job type'],
    ],
  ),
  ...['__proto__', 'a b', 'a:b', '-a', 'é'].map(
    (type): Row => [13, `type ${brief(type)}`, 'INVALID_NAME', (queue) => queue.enqueue(type, 1), ['A-Za-z0-9']],
  ),
];

const names = [':', '*', '?', '{', '}', '/', '\\', '..', '\r\n', '\0'].flatMap((part) => [
  part,
  `a${part === '..' ? '/..' : part}b`,
]);
const options: readonly Row[] = [
  ...[...names, 'x'.repeat(129), '🚂', '\u202eabc', 'é', ' a', 'a ', '', '-a', '.a', 5, null].map((queue) =>
    withOption(15, 'INVALID_NAME', { queue }, '^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$'),
  ),
  withOption(16, 'INVALID_NAME', { queue: "'; DROP TABLE jobs;--" }),
  ...['', 'x'.repeat(257), '€'.repeat(86), 'a\0b', '\ud83d', 5, null, {}].flatMap((key) => [
    withOption(17, 'INVALID_KEY', { exclusiveKey: key }, 'exclusiveKey'),
    withOption(17, 'INVALID_KEY', { source: key }, 'source'),
    withOption(17, 'INVALID_KEY', { subject: typeof key === 'string' && key !== '' ? `a:${key}` : key }, 'subject'),
    ...(key === '' ? [] : [withOption(17, 'INVALID_KEY', { deduplicationKey: key }, 'deduplicationKey')]),
  ]),
  ...['trip', ':42', 'trip:', 'a b:1', '-a:1', `${'k'.repeat(129)}:1`].map((subject) =>
    withOption(17, 'INVALID_KEY', { subject }, 'kind:id'),
  ),
  ...[
    -1,
    Number.NaN,
    '5',
    1e300,
    3650 * day + 1,
    Number.POSITIVE_INFINITY,
    'soon',
    '-5s',
    '5 s',
    '1e3s',
    '5y',
    null,
    {},
    5n,
  ].map((delay) => withOption(18, 'INVALID_DELAY', { delay }, 'delay')),
  withOption(18, 'INVALID_DELAY', { delay: 5, runAt: new Date(0) }, 'both'),
  ...[new Date(Number.NaN), new Date('275761-01-01'), new Date(8.64e15 + 1), '2030-01-01', 5, null].map((runAt) =>
    withOption(19, 'INVALID_DATE', { runAt }, 'runAt'),
  ),
  ...[1.5, 2 ** 53, 'high', 1001, -1001, Number.NaN, null, '5'].map((priority) =>
    withOption(21, 'INVALID_PRIORITY', { priority }, 'priority', '1000'),
  ),
  ...[0, -1, 1e9, 10_001, 1.5, '3', Number.NaN, null].map((attempts) =>
    withOption(22, 'INVALID_ATTEMPTS', { attempts }, 'attempts', '10000'),
  ),
  ...[0, 0.4, -1, 365 * day + 1, '366d', '5', Number.NaN, null].map((ttl) =>
    withOption(23, 'INVALID_TTL', { ttl }, 'ttl'),
  ),
  withOption(23, 'TTL_BEFORE_DUE', { ttl: '5s', delay: '6s' }, '5000', '6000'),
  withOption(23, 'TTL_BEFORE_DUE', { ttl: '5s', delay: '5s' }),
  withOption(23, 'TTL_BEFORE_DUE', { ttl: '5s', runAt: new Date('2100-01-01') }),
  ...[
    -1,
    'always',
    '5',
    Number.NaN,
    {},
    null,
    { completed: -1 },
    { age: '5' },
    { count: -1 },
    { count: 1.5 },
    { count: 'x' },
    { completed: { count: Number.POSITIVE_INFINITY } },
    { completed: null },
  ].map(
    (keep): Row => [
      25,
      `keep ${JSON.stringify(keep)}`,
      'INVALID_RETENTION',
      (queue) => queue.enqueue('mail', 1, { keep: keep as never }),
      ['keep'],
    ],
  ),
  ...(
    [
      ['timeout 0', { timeout: 0 }],
      ['timeout "5"', { timeout: '5' }],
      ['backoff "1s"', { backoff: '1s' }],
      ['backoff null', { backoff: null }],
      ['backoff without a base', { backoff: { type: 'fixed' } }],
      ['backoff of no type', { backoff: { base: 1 } }],
      ['backoff of an unknown type', { backoff: { type: 'cubic', base: 1 } }],
      ['backoff with a negative max', { backoff: { type: 'fixed', base: 1, max: -1 } }],
      ['backoff with a jitter of 2', { backoff: { type: 'fixed', base: 1, jitter: 2 } }],
      ['backoff with a jitter that is no number', { backoff: { type: 'fixed', base: 1, jitter: '0.5' } }],
    ] as const
  ).map(([what, given]): Row => [18, what, 'INVALID_DURATION', (queue) => queue.enqueue('mail', 1, given as never)]),
  [
    11,
    'a backoff function with one job',
    'UNSERIALIZABLE',
    (queue) => queue.enqueue('mail', 1, { backoff: () => 5 }),
    ['definition'],
  ],
  ...['once', '', null, 5, 'Skip'].map((deduplication) =>
    withOption(26, 'INVALID_DEDUPLICATION', { deduplication }, 'coalesce'),
  ),
  ...['', 'a b', '\0', 'x'.repeat(129), '../x', 5, null].map((id) => withOption(34, 'INVALID_ID', { id })),
  ...[5, 'x', null, []].map((metadata) => withOption(11, 'UNSERIALIZABLE', { metadata }, 'metadata')),
  withOption(11, 'UNSERIALIZABLE', { metadata: { at: new Date(0) } }, 'metadata.at'),
  withOption(12, 'PAYLOAD_TOO_LARGE', { metadata: { text: 'x'.repeat(256 * 1024) } }, 'metadata'),
];

const unknown: readonly Row[] = [
  ...(
    [
      ['dely', 'delay'],
      ['prioritty', 'priority'],
      ['atempts', 'attempts'],
      ['TTL', 'ttl'],
      ['deduplicationkey', 'deduplicationKey'],
      ['removeOnComplete', 'keep: { completed: … }'],
      ['removeOnFail', 'keep: { failed: … }'],
      ['jobId', 'id'],
      ['singletonKey', 'deduplicationKey (with deduplication)'],
      ['repeat', 'queue.schedule(…)'],
    ] as const
  ).map(([wrong, right]) => withOption(26, 'UNKNOWN_OPTION', { [wrong]: 1 }, `"${wrong}"`, `Did you mean ${right}?`)),
  withOption(26, 'UNKNOWN_OPTION', { somethingElse: 1 }, 'Known are queue, priority, delay'),
  ...['constructor', 'toString', 'hasOwnProperty'].map((name) =>
    withOption(26, 'UNKNOWN_OPTION', { [name]: 1 }, `"${name}"`),
  ),
  [
    26,
    '__proto__ as an option',
    'UNKNOWN_OPTION',
    (queue) => queue.enqueue('mail', 1, JSON.parse('{"__proto__":1}')),
    ['__proto__'],
  ],
  ...[null, 5, 'x', []].map(
    (given): Row => [
      26,
      `options ${brief(given)}`,
      'UNKNOWN_OPTION',
      (queue) => queue.enqueue('mail', 1, given as never),
      ['give an object'],
    ],
  ),
  [
    26,
    'an unknown field of backoff',
    'UNKNOWN_OPTION',
    (queue) => queue.enqueue('mail', 1, { backoff: { type: 'fixed', base: 1, jiter: 1 } as never }),
    ['jitter'],
  ],
  ...(
    [
      [{ completd: '1d' }, 'completed'],
      [{ completed: '1d', faild: '1d' }, 'failed'],
      [{ age: '1d', cuont: 1 }, 'count'],
      [{ completed: { aeg: '1d' } }, 'age'],
    ] as const
  ).map(
    ([keep, right]): Row => [
      26,
      `keep ${JSON.stringify(keep)}`,
      'UNKNOWN_OPTION',
      (queue) => queue.enqueue('mail', 1, { keep: keep as never }),
      [`Did you mean ${right}?`],
    ],
  ),
  [
    26,
    'an unknown field of a listed job',
    'UNKNOWN_OPTION',
    (queue) => queue.enqueueMany([{ type: 'mail', data: 1 } as never]),
    ['Job 0', 'Did you mean input?'],
  ],
];

const fine = { type: 'mail', input: 1 };
const lists: readonly Row[] = [
  [27, 'no jobs', 'BATCH_SIZE', (queue) => queue.enqueueMany([]), ['1000']],
  [27, '1,001 jobs', 'BATCH_SIZE', (queue) => queue.enqueueMany(Array(1_001).fill(fine)), ['1001', '1000']],
  ...[undefined, null, 5, {}, 'mail'].map(
    (jobs): Row => [27, `a list that is ${brief(jobs)}`, 'BATCH_SIZE', (queue) => queue.enqueueMany(jobs as never)],
  ),
  ...(
    [
      ['a wrong input', { type: 'mail', input: undefined }, 'UNSERIALIZABLE'],
      ['no type', { input: 1 }, 'TYPE_REQUIRED'],
      ['a wrong option', { ...fine, options: { priority: 'high' } }, 'INVALID_PRIORITY'],
      ['an unknown option', { ...fine, options: { dely: 1 } }, 'UNKNOWN_OPTION'],
      ['null', null, 'UNKNOWN_OPTION'],
      ['a text', 'mail', 'UNKNOWN_OPTION'],
    ] as const
  ).map(
    ([what, bad, code]): Row => [
      28,
      `one job of five is ${what}`,
      code,
      (queue) => queue.enqueueMany([fine, fine, fine, bad as never, fine]),
      ['Job 3: '],
    ],
  ),
];

const readings: readonly Row[] = [
  ...(['find', 'cancel', 'retry', 'remove'] as const).map(
    (verb): Row => [
      15,
      `${verb} by a definition`,
      'INVALID_NAME',
      (queue) => queue[verb]({ type: defineJob('letter', {}) as never }),
      ['type is a definition; give its name, "letter"'],
    ],
  ),
  ...(['dryRun', 'cursor', 'reason', 'force', 'again'] as const).map(
    (name): Row => [
      39,
      `${name} inside of the filter`,
      'UNKNOWN_OPTION',
      (queue) => queue.retry({ type: 'mail', [name]: true }),
      [`"${name}" belongs to the second argument: retry(filter, { ${name} })`],
    ],
  ),
  ...['', 'a b', '\0', 'x'.repeat(129), 5, null, undefined].flatMap((id): Row[] => [
    [34, `get ${brief(id)}`, 'INVALID_ID', (queue) => queue.get(id as string)],
    [34, `logs ${brief(id)}`, 'INVALID_ID', (queue) => queue.logs(id as string)],
    [34, `wait ${brief(id)}`, 'INVALID_ID', (queue) => queue.wait(id as string)],
  ]),
  ...[0, -1, 201, 1e9, 1.5, '50', Number.NaN, null].map(
    (limit): Row => [
      51,
      `limit ${brief(limit)}`,
      'INVALID_LIMIT',
      (queue) => queue.find({ limit: limit as number }),
      ['200'],
    ],
  ),
  ...['', 'garbage!', '../..', '-1', 'zzzzzzzzzzzzzzz', {}, 5].map(
    (cursor): Row => [
      51,
      `cursor ${brief(cursor)}`,
      'INVALID_CURSOR',
      (queue) => queue.find({ cursor: cursor as string }),
    ],
  ),
  ...['done', 'PENDING', '', 5].map(
    (state): Row => [52, `state ${brief(state)}`, 'INVALID_FILTER', (queue) => queue.find({ state: state as never })],
  ),
  [52, 'after that is no date', 'INVALID_FILTER', (queue) => queue.find({ after: '2030' as never })],
  [52, 'before that is an invalid date', 'INVALID_FILTER', (queue) => queue.find({ before: new Date(Number.NaN) })],
  [52, '1,001 ids', 'INVALID_FILTER', (queue) => queue.find({ id: Array(1_001).fill('a') })],
  [52, 'a type that is a pattern', 'INVALID_NAME', (queue) => queue.find({ type: '(a+)+$' })],
  [
    26,
    'an unknown filter',
    'UNKNOWN_OPTION',
    (queue) => queue.find({ stat: 'pending' } as never),
    ['Did you mean state?'],
  ],
  ...[null, 5, 'x'].map(
    (filter): Row => [
      26,
      `a filter that is ${brief(filter)}`,
      'UNKNOWN_OPTION',
      (queue) => queue.find(filter as never),
    ],
  ),
  [38, 'an empty subject', 'SUBJECT_REQUIRED', (queue) => queue.find({ subject: '' })],
  // Wildcards are plain characters, and a text without a kind is no subject.
  ...['*', '%', 'trip'].flatMap((subject): Row[] => [
    [38, `subject ${brief(subject)}`, 'INVALID_KEY', (queue) => queue.find({ subject })],
    [38, `events of ${brief(subject)}`, 'INVALID_KEY', async (queue) => queue.events({ subject })],
  ]),
  ...['', 'trip', '*', 'trip:', 'trip:\0'].flatMap((subject): Row[] => [
    [17, `endSubject of ${brief(subject)}`, 'INVALID_KEY', (queue) => queue.endSubject(subject, 'gone')],
    [17, `liftSubject of ${brief(subject)}`, 'INVALID_KEY', (queue) => queue.liftSubject(subject)],
  ]),
  ...['cancel', 'remove', 'retry'].flatMap((verb): Row[] => {
    const act = (queue: Queue, which: unknown) => queue[verb as 'cancel'](which as never);
    return [
      [38, `${verb} with an empty filter`, 'FILTER_REQUIRED', (queue) => act(queue, {}), ['all: true']],
      [38, `${verb} with nothing`, 'FILTER_REQUIRED', (queue) => act(queue, undefined)],
      [38, `${verb} of the subject *`, 'INVALID_KEY', (queue) => act(queue, { subject: '*' })],
      [38, `${verb} of an empty subject`, 'SUBJECT_REQUIRED', (queue) => act(queue, { subject: '' })],
      [38, `${verb} with all: false`, 'INVALID_FILTER', (queue) => act(queue, { all: false })],
      [34, `${verb} of a malformed id`, 'INVALID_ID', (queue) => act(queue, 'a b')],
      [
        26,
        `${verb} with an unknown option`,
        'UNKNOWN_OPTION',
        (queue) => queue[verb as 'cancel']('x', { forse: true } as never),
        ['Did you mean force?'],
      ],
      ...[5, null, {}, ['x'], Symbol('x'), () => 'x'].map(
        (reason): Row => [
          26,
          `${verb} with a reason that is ${brief(reason)}`,
          'INVALID_INPUT',
          (queue) => queue[verb as 'cancel']('x', { reason: reason as string }),
          [`The reason of ${verb} is`],
        ],
      ),
    ];
  }),
  ...[5, null, undefined, {}, '', ' '].map(
    (reason): Row => [
      26,
      `hold with the reason ${brief(reason)}`,
      'INVALID_INPUT',
      (queue) => queue.hold('x', reason as string),
      ['The reason of hold is'],
    ],
  ),
  [18, 'reschedule to nowhere', 'INVALID_DELAY', (queue) => queue.reschedule('x', {})],
  [18, 'reschedule by -1', 'INVALID_DELAY', (queue) => queue.reschedule('x', { delay: -1 })],
  [15, 'pause of a queue that is no name', 'INVALID_NAME', (queue) => queue.pause('a b')],
];

const working: readonly Row[] = (
  [
    ['lease 999', { lease: 999 }, 'INVALID_LEASE'],
    ['lease 0', { lease: 0 }, 'INVALID_LEASE'],
    ['lease "5"', { lease: '5' }, 'INVALID_LEASE'],
    ['a heartbeat as long as the lease', { lease: '5s', heartbeat: '5s' }, 'INVALID_LEASE'],
    ['a heartbeat longer than the lease', { lease: '5s', heartbeat: '6s' }, 'INVALID_LEASE'],
    ['a heartbeat longer than the default lease', { heartbeat: '31s' }, 'INVALID_LEASE'],
    ['heartbeat 0', { heartbeat: 0 }, 'INVALID_LEASE'],
    ['concurrency 0', { concurrency: 0 }, 'INVALID_LIMIT'],
    ['concurrency 1.5', { concurrency: 1.5 }, 'INVALID_LIMIT'],
    ['maxStalls 0', { maxStalls: 0 }, 'INVALID_LIMIT'],
    ['poll -1', { poll: -1 }, 'INVALID_DURATION'],
    ['poll 0', { poll: 0 }, 'INVALID_DURATION'],
    ['no queue', { queues: [] }, 'INVALID_NAME'],
    ['a queue that is no name', { queues: ['a b'] }, 'INVALID_NAME'],
    ['lockDuration', { lockDuration: 5 }, 'UNKNOWN_OPTION'],
  ] as const
).map(
  ([what, given, code]): Row => [
    24,
    `work with ${what}`,
    code,
    (queue) => queue.work([defineJob('mail', { run: () => 1 })], given as never),
  ],
);

const scheduling: readonly Row[] = ['* * * * * * *', '60 * * * *', '1,'.repeat(5_000)].map((cron) => [
  54,
  `the cron expression ${cron.slice(0, 20)}`,
  'INVALID_CRON',
  (queue) => queue.schedule('nightly', 'mail', null, { cron }),
  ['five fields'],
]);

const groups: Record<string, readonly Row[]> = {
  'the input': inputs,
  'the type': types,
  'an option': options,
  'what is unknown': unknown,
  'a list': lists,
  'reading and acting': readings,
  'a worker': working,
  'a schedule': scheduling,
};

/** Everything that a call could have changed. */
const everything = async (queue: Queue) => ({
  stats: await queue.stats(),
  found: await queue.find({ limit: 200 }),
  schedules: await queue.schedules(),
});

describe.each(Object.entries(groups))('refused: %s', (_group, rows) => {
  eachStore((on) => {
    const cases = rows.map(([row, what, code, call, says = []]) => ({ row, what, code, call, says }));
    // One queue for all of them: nothing that is refused may leave a trace for the next.
    let queue: Queue;
    beforeAll(async () => {
      queue = closedAfterwards(await open(await on.url(afterAll)), afterAll);
      await queue.enqueue('mail', 'already here', { delay: '1h' });
    });
    it.each(cases)('row $row: $what is $code', async ({ code, call, says }) => {
      const before = await everything(queue);
      const { message } = await expectCode(code, () => call(queue));
      for (const part of says) expect(message).toContain(part);
      expect(message.length).toBeLessThan(700);
      expect(await everything(queue)).toEqual(before);
    });
  });
});

describe('refused: with a list of types', () => {
  eachStore((on) => {
    it.each(['other', 'constructor', 'toString', '__proto__', 'hasOwnProperty', 'a b', "'; DROP TABLE jobs;--"])(
      'rows 13, 14: the type %j is UNKNOWN_TYPE',
      async (type) => {
        const { queue } = await on.still({ types: [defineJob('mail', {})] });
        const { message } = await expectCode('UNKNOWN_TYPE', () => queue.enqueue(type, 1));
        expect(message).toContain('mail');
        expect((await queue.stats()).total.pending).toBe(0);
      },
    );
  });
});

describe('refused: the cleanup options of open', () => {
  eachStore((on) => {
    it.each([
      ['a negative retention', { jobRetentionMs: -1 }, 'INVALID_RETENTION'],
      ['a retention that never ends', { jobRetentionMs: Number.POSITIVE_INFINITY }, 'INVALID_RETENTION'],
      ['a retention that is NaN', { jobRetentionMs: Number.NaN }, 'INVALID_RETENTION'],
      ['a retention that is text', { jobRetentionMs: '1h' }, 'INVALID_RETENTION'],
      ['an interval that is text', { cleanupIntervalMs: '1h' }, 'INVALID_RETENTION'],
      ['a negative cap', { maxStoredJobs: -1 }, 'INVALID_RETENTION'],
      ['a cap with a fraction', { maxStoredJobs: 1.5 }, 'INVALID_RETENTION'],
      ['a cap that is text', { maxStoredJobs: '1000' }, 'INVALID_RETENTION'],
      ['an interval of 0', { cleanupIntervalMs: 0 }, 'INVALID_RETENTION'],
      ['a negative interval', { cleanupIntervalMs: -1 }, 'INVALID_RETENTION'],
      ['useCompletedTime that is no boolean', { useCompletedTime: 'yes' }, 'INVALID_RETENTION'],
      ['an unknown name', { maxStoredJob: 5 }, 'UNKNOWN_OPTION'],
      ['a list', [], 'UNKNOWN_OPTION'],
    ] as const)('row 25: %s', async (_what, cleanup, code) => {
      await expectCode(code, async () => open(await on.url(), { cleanup: cleanup as never }));
    });
  });
});

describe('accepted at the edge', () => {
  const edges: [string, unknown, JobOptions?][] = [
    ['row 5: 64 levels', nested(64)],
    ['row 6: "constructor" alone, and "prototype" alone', { constructor: 1, prototype: { a: 1 } }],
    ['row 7: of duplicate keys the last, as JSON.parse has it', JSON.parse('{"a":1,"a":2}')],
    ['row 10: 2^53 - 1', [Number.MAX_SAFE_INTEGER, Number.MIN_SAFE_INTEGER, 1e-300, 0.1]],
    ['row 12: exactly 256 KiB', 'x'.repeat(256 * 1024 - 2)],
    ['row 11: an object without a prototype', Object.assign(Object.create(null), { a: 1 })],
    ['row 11: one object in two places', ((shared) => ({ a: shared, b: [shared] }))({ c: 1 })],
    ['row 15: a name of 128 characters', 1, { queue: 'x'.repeat(128) }],
    ['row 16: a queue named like a keyword', 1, { queue: 'select' }],
    ['row 17: keys of 256 bytes', 1, { exclusiveKey: 'é'.repeat(128), deduplicationKey: 'x'.repeat(256) }],
    ['row 17: keys of any characters but NUL', 1, { exclusiveKey: "'; DROP TABLE jobs;-- \n\t*%{}", source: '🚂' }],
    ['row 23: a ttl longer than the delay', 1, { ttl: 6_000, delay: 5_999 }],
  ];
  eachStore((on) => {
    it.each(edges)('%s', async (_what, input, given) => {
      const { queue } = await on.still();
      const { id } = await queue.enqueue('mail', input, given);
      const job = await queue.get(id);
      expect(job?.input).toEqual(JSON.parse(JSON.stringify(input)));
      const { queue: name, exclusiveKey, deduplicationKey, source } = given ?? {};
      if (name) expect(job?.queue).toBe(name);
      if (exclusiveKey) expect(job?.exclusiveKey).toBe(exclusiveKey);
      if (deduplicationKey) expect(job?.deduplicationKey).toBe(deduplicationKey);
      if (source) expect(job?.source).toBe(source);
    });

    it('row 14: without a list of types, "constructor" is a name like any other', async () => {
      const { queue } = await on.still();
      const { id } = await queue.enqueue('constructor', 1, { queue: 'toString' });
      expect(await queue.get(id)).toMatchObject({ type: 'constructor', queue: 'toString' });
      expect((await queue.stats()).queues.toString).toMatchObject({ pending: 1 });
      expect((await queue.find({ type: 'constructor', queue: 'toString' })).items).toHaveLength(1);
    });
  });
});

describe('row 43: a result that cannot be stored fails the job with RESULT_INVALID, and is not tried again', () => {
  const results: [string, () => unknown, string][] = [
    ['a BigInt', () => 5n, 'bigint'],
    ['a cycle', cyclic, 'itself'],
    ['a function', () => () => 1, 'function'],
    ['a Map', () => new Map(), 'Map'],
    ['NaN', () => Number.NaN, 'NaN'],
    ['undefined in a list', () => ({ a: [undefined] }), 'result.a[0]'],
    ['more than 256 KiB', () => 'x'.repeat(256 * 1024), '262146'],
    ['a NUL', () => ({ text: 'a\0b' }), 'NUL'],
    ['a lone surrogate', () => '\ud83d', 'surrogate'],
    ['65 levels', () => nested(65), 'deeper'],
    ['2^53', () => 2 ** 53, '2^53'],
    ['the key __proto__', () => JSON.parse('{"__proto__":1}'), '__proto__'],
    ['a getter that throws', () => ({ get a() { throw new Error('no'); } }), 'cannot be stored'],
    ['a Proxy that throws', () => new Proxy({}, { ownKeys: () => { throw new Error('no'); } }), 'cannot be stored'],
  ]; // biome-ignore format: one case a line
  eachStore((on) => {
    it.each(results)('%s', async (_what, make, says) => {
      const queue = await on.open();
      const type = defineJob<unknown, unknown>('produce', { attempts: 5, run: () => make() });
      await queue.work([type]);
      const job = await queue.wait((await queue.enqueue(type, 1)).id);
      expect(job).toMatchObject({ state: 'failed', attempts: 1, result: null, error: { code: 'RESULT_INVALID' } });
      expect(job.error!.message).toContain(says);
    });

    it('undefined is no result: the job is completed with null', async () => {
      const queue = await on.open();
      const type = defineJob<unknown, unknown>('produce', { run: () => undefined });
      await queue.work([type]);
      expect(await queue.wait((await queue.enqueue(type, 1)).id)).toMatchObject({ state: 'completed', result: null });
    });
  });
});

describe('row 44: whatever a handler throws, the job ends failed with an error of at most 16 KiB', () => {
  const trap = (): never => {
    throw new Error('trapped');
  };
  const hostile = (): object =>
    new Proxy({}, { get: trap, has: trap, ownKeys: trap, getPrototypeOf: trap, getOwnPropertyDescriptor: trap });
  const cause = (): Error => {
    const error = new Error('outer');
    error.cause = new Error('inner', { cause: error });
    return error;
  };
  const thrown: [string, () => unknown, string][] = [
    ['undefined', () => undefined, 'Thrown: undefined'],
    ['null', () => null, 'Thrown: null'],
    ['a string', () => 'no paper', 'no paper'],
    ['an empty string', () => '', ''],
    ['a number', () => 42, 'Thrown: 42'],
    ['a BigInt', () => 42n, 'Thrown: 42'],
    ['a symbol', () => Symbol('s'), 'Thrown: Symbol(s)'],
    ['a function', () => () => 1, 'Thrown: '],
    ['a plain object', () => ({}), 'Thrown: [object Object]'],
    ['an object without a prototype', () => Object.create(null), 'Thrown: '],
    ['a Proxy whose traps throw', hostile, 'cannot be read'],
    ['a revoked Proxy', () => { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy; }, 'cannot be read'],
    ['a frozen error', () => Object.freeze(new Error('frozen')), 'frozen'],
    ['a cyclic cause', cause, 'outer (cause: inner)'],
    ['an error whose cause throws', () => Object.defineProperty(new Error('outer'), 'cause', { get: trap }), 'outer'],
    ['a message of 100 MB', () => new Error('x'.repeat(100_000_000)), 'xxx'],
    ['a string of 100 MB', () => 'x'.repeat(100_000_000), 'xxx'],
    ['a message of control characters', () => new Error('\u0001'.repeat(20_000)), '\u0001'],
    ['a message of quotes', () => new Error('"'.repeat(20_000)), '"'],
    ['a NUL', () => new Error('a\0b'), 'a\\u0000b'],
    ['a lone surrogate', () => new Error('a\ud83db'), 'a\ufffdb'],
    ['a message cut in the middle of a character', () => new Error('🚂'.repeat(10_000)), '🚂'],
    ['a getter that throws as message', () => Object.defineProperty(new Error('x'), 'message', { get: trap }), 'cannot be read'],
    ['a getter that throws as stack', () => Object.defineProperty(new Error('kept'), 'stack', { get: trap }), 'kept'],
    ['a message that is no text', () => ({ message: { toString: trap } }), 'Thrown: '],
    ['a code of 1 MB', () => Object.assign(new Error('coded'), { code: 'C'.repeat(1_000_000) }), 'coded'],
    ['a code that is no text', () => Object.assign(new Error('coded'), { code: 5 }), 'coded'],
    ['a stack of 1 MB', () => Object.assign(new Error('deep'), { stack: '\n'.repeat(1_000_000) }), 'deep'],
    ['an object whose toString throws', () => ({ toString: trap, [Symbol.toPrimitive]: trap, get [Symbol.toStringTag](): string { return trap(); } }), 'cannot be read'],
  ]; // biome-ignore format: one case a line

  eachStore((on) => {
    it.each(thrown)('%s', async (_what, make, says) => {
      const queue = await on.open();
      const type = defineJob('break', {
        attempts: 1,
        run: () => {
          throw make();
        },
      });
      await queue.work([type]);
      const job = await queue.wait((await queue.enqueue(type, 1)).id);
      expect(job).toMatchObject({ state: 'failed', attempts: 1, result: null });
      expect(job.error!.message).toContain(says);
      const text = JSON.stringify(job.error);
      expect(byteLength(text)).toBeLessThanOrEqual(16 * 1024);
      expect(text.isWellFormed()).toBe(true);
      expect(job.error!.message).not.toContain('\0');
    });

    it('an asynchronous throw is the same', async () => {
      const queue = await on.open();
      const type = defineJob('break', { attempts: 1, run: async () => Promise.reject(hostile() as Error) });
      await queue.work([type]);
      const job = await queue.wait((await queue.enqueue(type, 1)).id);
      expect(job).toMatchObject({ state: 'failed', error: { message: expect.stringContaining('cannot be read') } });
    });

    it('a code that is text is kept with the error, and so is the stack', async () => {
      const queue = await on.open();
      const type = defineJob('break', {
        attempts: 1,
        run: () => {
          throw Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
        },
      });
      await queue.work([type]);
      const { error } = await queue.wait((await queue.enqueue(type, 1)).id);
      expect(error).toEqual({ message: 'refused', code: 'ECONNREFUSED', stack: expect.stringContaining('bad-input') });
    });

    it('fail() with any reason is stored within the same bounds, without a stack', async () => {
      const queue = await on.open();
      const { fail } = await import('../src/index.js');
      const reasons = ['a\0b', 'x'.repeat(1_000_000), { message: '\ud83d', code: 'MINE' }, hostile()];
      const type = defineJob<number, null>('break', { run: ({ input }) => fail(reasons[input] as string) });
      await queue.work([type]);
      for (const index of reasons.keys()) {
        const { state, error } = await queue.wait((await queue.enqueue(type, index)).id);
        expect(state).toBe('failed');
        expect(byteLength(JSON.stringify(error))).toBeLessThanOrEqual(16 * 1024);
        expect(error).not.toHaveProperty('stack');
      }
    });
  });
});

describe('a refusal', () => {
  it('never repeats a long value, and stays on one line', async () => {
    const queue = closedAfterwards(await open('memory:'));
    const { message } = await refusalOf(() => queue.enqueue(`a\n${'x'.repeat(10_000)}`, 1));
    expect(message.length).toBeLessThan(300);
    expect(message).not.toContain('\n');
  });
});
