import { expect, it } from 'vitest';
import { inOrder } from '../../src/stores/postgres/call.js';

interface Asked {
  readonly fn: string;
  answer(error?: Error): void;
}

function recorded() {
  const asked: Asked[] = [];
  const call = inOrder(
    (fn: string) =>
      new Promise((resolve, reject) => {
        asked.push({ fn, answer: (error) => (error ? reject(error) : resolve([])) });
      }),
  );
  const names = async (): Promise<string[]> => {
    await new Promise(setImmediate);
    return asked.map(({ fn }) => fn);
  };
  return { call, asked, names };
}

it('what is written after somebody asked where the event log ends is sent after the answer', async () => {
  const { call, asked, names } = recorded();
  const end = call('read_events_v2', [null, 1]);
  const first = call('insert_alike_v1', []);
  const second = call('settle_v1', []);
  expect(await names()).toEqual(['read_events_v2']);
  asked[0]!.answer();
  await end;
  expect(await names()).toEqual(['read_events_v2', 'insert_alike_v1', 'settle_v1']);
  for (const { answer } of asked) answer();
  await Promise.all([first, second]);
});

it('it waits for all who ask, and a question that fails is over', async () => {
  const { call, asked, names } = recorded();
  const ends = [call('read_events_v2', [null, 1]), call('read_events_v2', [null, 1])];
  void call('insert_v1', []);
  asked[1]!.answer();
  expect(await names()).toHaveLength(2);
  asked[0]!.answer(new Error('gone'));
  await expect(ends[0]).rejects.toThrow('gone');
  expect(await names()).toEqual(['read_events_v2', 'read_events_v2', 'insert_v1']);
  void call('insert_v1', []);
  expect(await names()).toHaveLength(4);
});

it('nothing waits for who goes on reading, nor do readers and transactions of the caller', async () => {
  const { call, names } = recorded();
  void call('read_events_v2', [5, 1]);
  void call('insert_v1', []);
  void call('read_events_v2', [null, 1]);
  void call('find_v1', []);
  void call('insert_v1', [], {});
  expect(await names()).toEqual(['read_events_v2', 'insert_v1', 'read_events_v2', 'find_v1', 'insert_v1']);
});
