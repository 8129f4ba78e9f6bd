// Odd texts and values: each is kept as it was, or refused with the same code, on PostgreSQL as in memory.
import { beforeAll, afterAll, describe, expect, test } from 'vitest';
import { defineJob, fail, type Json, LastoutError, open, type Queue } from '../../src/index.js';
import { emptyPostgres } from '../services.js';

const values: readonly (readonly [string, unknown])[] = [
  ['nothing', null],
  ['an empty text', ''],
  ['an empty list', []],
  ['an empty object', {}],
  ['empty containers in containers', { a: [], b: {}, c: [[], {}, [[]]], '': '' }],
  ['true and false', [true, false]],
  ['zeros', [0, -0]],
  ['the largest safe integers', [2 ** 53 - 1, -(2 ** 53 - 1)]],
  ['an integer beyond them', 2 ** 53],
  ['a negative integer beyond them', { n: -(2 ** 60) }],
  ['the largest and the smallest number', [Number.MAX_VALUE, Number.MIN_VALUE, 5e-324, 1e21, 1e-7]],
  ['fractions', [0.1 + 0.2, 1 / 3, 123456789.123456789]],
  ['NaN', Number.NaN],
  ['an infinity', [Number.POSITIVE_INFINITY]],
  ['a NUL', 'a\0b'],
  ['a NUL in a key', { 'a\0b': 1 }],
  ['a NUL, deep', { a: [{ b: ['\0'] }] }],
  ['the six characters that stand for NUL', '\\u0000'],
  ['a lone high surrogate', '\ud83d'],
  ['a lone low surrogate', 'x\ude00y'],
  ['a lone surrogate in a key', { '\ud83d': 1 }],
  ['surrogates in the wrong order', '\ude00\ud83d'],
  ['a pair of surrogates', '😀'],
  ['control characters', Array.from({ length: 31 }, (_, index) => String.fromCharCode(index + 1)).join('')],
  ['what ends lines', 'a\r\nb\u2028c\u2029d\u0085e\fg\vh'],
  ['no characters', '\uffff\ufffe\ufeff'],
  ['other planes', '\u{10ffff}\u{1f468}\u200d\u{1f469}'],
  ['right to left', 'שלום \u202e abc'],
  ['quotes and dollars', `'"\`$$ $1 $tag$ $$ ''; drop schema lastout cascade; --`],
  ['backslashes', "\\ \\\\ \\n \\' E'\\x41' \\."],
  ['separators', 'a,b;c|d\te{f}g[h]i(j)'],
  ['what looks like null or JSON', ['null', 'NULL', '\\N', '{}', '[]', '"', '{"a":1}']],
  ['a mark of the codec', '~:abc'],
  ['percent and underscore', '%_%s%%'],
  ['a key that is forbidden', JSON.parse('{"__proto__":1}')],
  ['keys that look like numbers', { 1: 'a', 0: 'b', '01': 'c' }],
  ['a long text', 'ä"\\'.repeat(40_000)],
  ['a text that is too long', 'x'.repeat(300_000)],
  ['a deep list', Array.from({ length: 60 }).reduce<unknown>((inner) => [inner], 1)],
  ['a list that is too deep', Array.from({ length: 70 }).reduce<unknown>((inner) => [inner], 1)],
  ['a date', new Date(0)],
  ['a big integer', 10n],
];

const echo = defineJob<Json, Json>('echo', { attempts: 1, run: ({ input }) => input });

/** What becomes of a value: given back, or refused with a code. */
type Outcome = { readonly kept: unknown } | { readonly code: string };
type Way = (queue: Queue, value: never) => Promise<unknown>;

async function outcome(way: Way, queue: Queue, value: unknown): Promise<Outcome> {
  try {
    return { kept: await way(queue, value as never) };
  } catch (error) {
    if (!(error instanceof LastoutError)) throw error;
    return { code: error.code };
  }
}

const asInput: Way = async (queue, input) => (await queue.get((await queue.enqueue('kept', input)).id))!.input;
const asMany: Way = async (queue, input) => {
  const made = await queue.enqueueMany([1, 2].map(() => ({ type: 'kept', input, options: { deduplication: 'none' } })));
  return Promise.all(made.map(async ({ id }) => (await queue.get(id))!.input));
};
const throughHandler: Way = async (queue, input) => {
  const { id } = await queue.enqueue(echo, input);
  const { input: seen, result, state } = await queue.wait(id);
  return { seen, result, state };
};
const asMetadata: Way = async (queue, value) => {
  const { id } = await queue.enqueue('kept', 1, { metadata: { value } });
  return (await queue.get(id))!.metadata;
};
const asKeys: Way = async (queue, value) => {
  const text = String(value);
  const options = { deduplicationKey: text, deduplication: 'skip', exclusiveKey: text, subject: `it:${text}` } as const;
  const { id } = await queue.enqueue('keyed', 1, options);
  const again = await queue.enqueue('keyed', 2, options);
  const found = (await queue.find({ subject: `it:${text}` })).items.map((job) => job.id);
  const { deduplicationKey, exclusiveKey, subject } = (await queue.get(id))!;
  return {
    same: again.id === id,
    outcome: again.outcome,
    found: found.includes(id),
    deduplicationKey,
    exclusiveKey,
    subject,
  };
};

let queues: { readonly memory: Queue; readonly postgres: Queue };
const closing: (() => unknown)[] = [];
beforeAll(async () => {
  const url = await emptyPostgres((undo) => void closing.push(undo));
  queues = { memory: await open('memory:', { cleanup: { maxStoredJobs: 100_000 } }), postgres: await open(url) };
  for (const queue of Object.values(queues)) await queue.work([echo], { concurrency: 4 });
});
afterAll(async () => {
  for (const queue of Object.values(queues)) await queue.close({ grace: 0 });
  for (const undo of closing) await undo();
});

describe.each([
  ['an input', asInput],
  ['inputs of one call', asMany],
  ['an input and a result of a handler', throughHandler],
  ['metadata', asMetadata],
  ['keys and a subject', asKeys],
])('as %s', (_, way) => {
  test.each(values)('%s', async (__, value) => {
    expect(await outcome(way, queues.postgres, value)).toStrictEqual(await outcome(way, queues.memory, value));
  });
});

describe('what a handler says', () => {
  const texts = values.filter(([, value]) => typeof value === 'string') as [string, string][];

  test.each(texts)('%s, thrown, in a log, as progress and as a reason', async (_, text) => {
    const sayer = defineJob<string, never>('sayer', {
      attempts: 1,
      run({ input, log, progress }) {
        log(text, { text });
        const refusal = refused(() => progress({ percent: 50, message: text }));
        if (input === 'fail') return fail(refusal ?? text);
        throw new Error(text);
      },
    });
    const said = async (queue: Queue, input: string): Promise<unknown> => {
      const worker = await queue.work([sayer]);
      const { id } = await queue.enqueue(sayer, input);
      const { state, error, progress } = await queue.wait(id);
      const lines = (await queue.logs(id)).map(({ message, fields }) => ({ message, fields }));
      await worker.stop();
      return { state, message: error?.message, code: error?.code, progress, lines };
    };
    for (const input of ['throw', 'fail'])
      expect(await said(queues.postgres, input)).toEqual(await said(queues.memory, input));
  });
});

function refused(act: () => void): string | null {
  try {
    act();
    return null;
  } catch (error) {
    return (error as LastoutError).code;
  }
}
