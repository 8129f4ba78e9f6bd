/** Mistakes that are easy to make, each answered where it is made and not where it would hurt. */
import { expect, test } from 'vitest';
import { closeOnSignals, defineJob, type LastoutError, open, snooze } from '../src/index.js';
import { fakeClock, testQueue } from '../src/testing/index.js';

const codeOf = async (call: () => unknown): Promise<string> => {
  try {
    await call();
  } catch (error) {
    return (error as LastoutError).code;
  }
  return 'none';
};

test('on: an event that does not exist is refused with the nearest one', async () => {
  await using queue = await open('memory:');
  expect(() => queue.on('complete' as 'completed', () => undefined)).toThrow(/Did you mean completed/);
  expect(() => queue.on('completed', undefined as never)).toThrow(/no listener/);
});

test('work: queues that are no list are refused', async () => {
  await using queue = await open('memory:');
  const type = defineJob('any', { run: () => null });
  expect(await codeOf(() => queue.work([type], { queues: 'mail' as never }))).toBe('INVALID_NAME');
});

test('closeOnSignals: what is no queue is refused at once, not at the signal', () => {
  expect(() => closeOnSignals(undefined as never)).toThrow(/give the queue that open returned/);
});

test('cancel: a subject of the wrong form is refused rather than matching nothing', async () => {
  await using queue = await open('memory:');
  expect(await codeOf(() => queue.cancel({ subject: 'trip' }))).toBe('INVALID_KEY');
});

test('enqueue: a throwing subject function is named', async () => {
  await using queue = await open('memory:');
  const type = defineJob<{ trip?: { id: string } }>('ride', { subject: (input) => `trip:${input.trip!.id}` });
  await expect(queue.enqueue(type, {})).rejects.toThrow(/subject of job type "ride" threw/);
});

test('enqueue: a property that is undefined is left out, at every depth, and makes no other input', async () => {
  await using queue = await open('memory:');
  const { id } = await queue.enqueue('mail', { cc: undefined, to: { name: 'a', title: undefined } }, { id: 'one' });
  expect((await queue.get(id))?.input).toStrictEqual({ to: { name: 'a' } });
  expect((await queue.enqueue('mail', { to: { name: 'a' } }, { id: 'one' })).outcome).toBe('existing');
  const large = { list: Array.from({ length: 2_000 }, (_, n) => n), none: undefined };
  expect((await queue.get((await queue.enqueue('mail', large)).id))?.input).toStrictEqual({ list: large.list });
});

test('enqueue: undefined in a list, or as a whole, is refused with what to do instead', async () => {
  await using queue = await open('memory:');
  await expect(queue.enqueue('mail', [1, undefined] as never)).rejects.toThrow(/input\[1\] is undefined; use null/);
  await expect(queue.enqueue('mail', undefined as never)).rejects.toThrow(/input is undefined; use null/);
});

test('a handler that throws an outcome is told to return it', async () => {
  await using on = await testQueue();
  const type = defineJob('thrower', {
    attempts: 1,
    run: () => {
      throw snooze('1h');
    },
  });
  await on.queue.work([type]);
  const { id } = await on.queue.enqueue(type, null);
  await on.clock.settle();
  const error = { message: 'The handler threw snooze(…); return it instead' };
  expect(await on.queue.get(id)).toMatchObject({ state: 'failed', attempts: 1, error });
});

test('fakeClock: advance takes a duration, and refuses what is none', async () => {
  const clock = fakeClock(new Date(0));
  await clock.advance('1h');
  expect(clock.now()).toEqual(new Date(3_600_000));
  expect(await codeOf(() => clock.advance('soon' as never))).toBe('INVALID_DURATION');
});

test('enqueue: an accessor is read once, so what was checked is what is stored', async () => {
  await using queue = await open('memory:');
  let reads = 0;
  const input = {
    get text() {
      reads += 1;
      return reads === 1 ? 'fine' : 'bad\0';
    },
  };
  const { id } = await queue.enqueue('accessor', input);
  expect((await queue.get(id))?.input).toEqual({ text: 'fine' });
});

test('enqueue: an input that unfolds to more than may be stored is refused before it is unfolded', async () => {
  await using queue = await open('memory:');
  let unfolding: object = {};
  for (let level = 0; level < 50; level++) unfolding = { a: unfolding, b: unfolding };
  expect(await codeOf(() => queue.enqueue('unfolding', unfolding as never))).toBe('PAYLOAD_TOO_LARGE');
});

test('closeOnSignals: a grace that is no duration is refused at once, not at the signal', async () => {
  await using queue = await open('memory:');
  expect(() => closeOnSignals(queue, { grace: '30' as never })).toThrow(/grace/);
});
