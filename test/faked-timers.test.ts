/** Under faked timers a test would hang; what lastout offers for tests says so instead. */
import { afterEach, expect, test, vi } from 'vitest';
import { fakeClock, testQueue } from '../src/testing/index.js';

afterEach(() => void vi.useRealTimers());

const said = { code: 'INVALID_INPUT', message: expect.stringContaining("vi.useFakeTimers({ toFake: ['Date'] })") };

test('testQueue: under faked timers it is refused, and says what to do', async () => {
  vi.useFakeTimers();
  await expect(testQueue()).rejects.toMatchObject(said);
});

test('testQueue: timers that are faked later are told by the next move of the clock', async () => {
  const { queue, clock } = await testQueue();
  vi.useFakeTimers();
  await expect(clock.advance('1s')).rejects.toMatchObject(said);
  await expect(clock.settle()).rejects.toMatchObject(said);
  vi.useRealTimers();
  await clock.advance('1s');
  await queue.close({ grace: 0 });
});

test('fakeClock: under faked timers it does not hang either', async () => {
  vi.useFakeTimers();
  await expect(fakeClock().advance('1s')).rejects.toMatchObject(said);
});

test('testQueue: as advised, with a faked Date alone, it works', async () => {
  vi.useFakeTimers({ toFake: ['Date'] });
  await using on = await testQueue();
  const { id } = await on.queue.enqueue('mail', null);
  await on.clock.advance('1h');
  expect(await on.queue.get(id)).toMatchObject({ state: 'pending' });
});
