/** With a codec, the bytes of a SQLite file never hold what a caller or a handler said. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { cancel, type Codec, defineJob, fail, open, snooze } from '../src/index.js';
import { aesGcm, newKey } from './codec/aes.js';
import { gate, temporaryFolder } from './support.js';

/** One word for each place where something may be said. */
const words = [
  'input',
  'result',
  'thrown',
  'thrown-code',
  'failed',
  'cancelled-by-itself',
  'cancelled-by-hand',
  'asked-to-stop',
  'line',
  'field',
  'step',
  'message',
  'replaced-input',
  'removed-input',
  'given-id-input',
  'retried-error',
  'scheduled-input',
] as const;
type Word = (typeof words)[number];

const secretOf = (word: Word): string => `top-secret-of-the-${word}`;

/** A life with everything in it: jobs that end in every way, are retried, replaced, cancelled and removed. */
async function live(file: string, codec: Codec | undefined): Promise<string> {
  const queue = await open(`sqlite:${file}`, codec ? { codec } : {});
  const started = gate();
  const talks = defineJob<any, any>('talks', {
    attempts: 1,
    run({ input, log, progress }) {
      log(secretOf('line'), { field: secretOf('field') });
      progress({ percent: 10, step: secretOf('step'), message: secretOf('message') });
      if (input.end === 'throw') throw Object.assign(new Error(secretOf('thrown')), { code: secretOf('thrown-code') });
      if (input.end === 'fail') return fail(secretOf('failed'));
      if (input.end === 'cancel') return cancel(secretOf('cancelled-by-itself'));
      if (input.end === 'snooze') return snooze('1h');
      return secretOf('result');
    },
  });
  const retries = defineJob<any, any>('retries', {
    run() {
      throw new Error(secretOf('retried-error'));
    },
  });
  const waits = defineJob<any, any>('waits', {
    run: ({ signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
        started.open();
      }),
  });
  for (const end of ['return', 'throw', 'fail', 'cancel', 'snooze'])
    await queue.enqueue(talks, { end, secret: secretOf('input') });
  await queue.enqueue(retries, 0);
  await queue.runUntilIdle([talks, retries]);
  await queue.retry({ type: 'talks', state: 'failed' });

  const running = await queue.enqueue(waits, 0);
  const worker = await queue.work([waits]);
  await started.opened;
  await queue.cancel(running.id, { reason: secretOf('asked-to-stop') });
  await queue.wait(running.id);
  await worker.stop();

  await queue.cancel((await queue.enqueue('idle', 0)).id, { reason: secretOf('cancelled-by-hand') });
  await queue.enqueue('newest', secretOf('replaced-input'), { deduplication: 'replace' });
  await queue.enqueue('newest', 0, { deduplication: 'replace' });
  await queue.remove((await queue.enqueue('idle', secretOf('removed-input'))).id);
  await queue.enqueueMany([{ type: 'idle', input: secretOf('given-id-input'), options: { id: 'given' } }]);
  await queue.schedule('nightly', 'talks', { secret: secretOf('scheduled-input') }, { every: '1h' });
  const bytes = bytesBeside(file); // the write-ahead log is still there
  await queue.close();
  return bytes + bytesBeside(file);
}

function bytesBeside(file: string): string {
  const folder = join(file, '..');
  return readdirSync(folder)
    .map((name) => readFileSync(join(folder, name), 'latin1'))
    .join('\n');
}

const foundIn = (bytes: string): Word[] => words.filter((word) => bytes.includes(secretOf(word)));

it('without a codec every word can be read in the file: the search finds what is there', async () => {
  expect(foundIn(await live(join(temporaryFolder(), 'jobs.db'), undefined))).toEqual(words);
});

it('with AES-256-GCM no word can, in the database or its log', async () => {
  const bytes = await live(join(temporaryFolder(), 'jobs.db'), aesGcm({ k1: newKey() }));
  expect(bytes).toContain('SQLite format 3');
  expect(bytes).toContain('talks');
  expect(foundIn(bytes)).toEqual([]);
  expect(bytes).not.toContain('top-secret');
});
