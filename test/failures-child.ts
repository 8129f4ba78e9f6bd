/**
 * A program whose jobs fail: `node failures-child.js URL MODE`, where MODE says with which logger. With `dies` it is killed by
 * its job, and with `survives` it sees what becomes of that one.
 */
import { cancel, defineJob, fail, open, type OpenOptions, snooze } from '../src/index.js';

const [url = '', mode = ''] = process.argv.slice(2);
const codec = {
  encode: (text: string) => Buffer.from(text).toString('base64'),
  decode: (text: string) => Buffer.from(text, 'base64').toString(),
};
const modes: Record<string, OpenOptions> = { none: {}, silent: { logger: false }, coded: { codec } };
const queue = await open(url, modes[mode] ?? {});
if (mode === 'dies') {
  const poison = defineJob<null>('poison', { run: () => void process.kill(process.pid, 'SIGKILL') });
  await queue.enqueue(poison, null, { id: 'poisoned' });
  await queue.work([poison], { lease: '1s', maxStalls: 1 });
  await queue.wait('poisoned');
}
if (mode === 'survives') {
  await queue.work([defineJob<null>('fine', { run: () => 'done' })]);
  await queue.wait('poisoned');
  await queue.close();
  process.exit();
}

const quota = Object.assign(new Error('quota of Ann\nreached'), { code: 'QUOTA' });
let snoozed = 0;
const types = [
  defineJob<null>('fine', { run: () => 'done' }),
  defineJob<null>('snoozes', { attempts: 1, run: () => (snoozed++ > 0 ? undefined : snooze(1)) }),
  defineJob<null>('gives-up', { run: () => cancel('no') }),
  defineJob<null>('says-no', { run: () => fail({ code: 'NO', message: 'not for Ann' }) }),
  defineJob<null>('throws', {
    attempts: 2,
    backoff: () => 1,
    run: () => {
      throw quota;
    },
  }),
];
const many = defineJob<null>('many', {
  attempts: 1,
  run: () => {
    throw new Error('again');
  },
});
await queue.work([...types, many], { concurrency: 1 });
for (const type of types) await queue.wait((await queue.enqueue(type, null)).id);
const ids = await queue.enqueueMany(Array.from({ length: 25 }, () => ({ type: many, input: null })));
await Promise.all(ids.map(({ id }) => queue.wait(id)));
await queue.close();
