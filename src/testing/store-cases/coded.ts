/** Texts that went through a codec: a store keeps them whole, reads nothing in them, and tells nothing of what they say. */
import assert from 'node:assert/strict';
import type { Ending } from '../../core/ending.js';
import { type Bench, storeCase } from './bench.js';

const coded = (text: string): string => `~:${text.repeat(100)}`;
const codedError = JSON.stringify({ message: coded('whole') });
const endings: readonly Ending[] = [
  { kind: 'retry', inMs: 0, error: codedError, brief: coded('brief') },
  { kind: 'exhaust', error: codedError, brief: coded('brief') },
  { kind: 'fail', error: codedError, brief: coded('brief') },
  { kind: 'cancel', error: codedError, brief: coded('brief') },
];

/** What is told of the errors of a job that ends this way. */
async function toldOf(bench: Bench, ending: Ending): Promise<unknown[]> {
  const id = await bench.add();
  const events = await bench.watch();
  assert.equal(await bench.settle(await bench.take(), ending), 'ok');
  assert.equal((await bench.job(id)).error, codedError);
  return (await events()).filter(({ error }) => error !== undefined).map(({ error }) => error);
}

export const codedCases = [
  ...endings.map((ending) =>
    storeCase(`settle: of a coded error an event tells the brief, whole (${ending.kind})`, async (bench) => {
      assert.deepEqual(await toldOf(bench, ending), [{ message: coded('brief') }]);
    }),
  ),
  storeCase('insert: a coded input is kept as it is', async (bench) => {
    const id = await bench.add({ input: coded('input') });
    assert.equal((await bench.job(id)).input, coded('input'));
    await bench.remove(id);
    assert.equal(await bench.exists(id), false);
  }),
  storeCase('insert: every coded input of a batch is kept as it is', async ({ insert, job }) => {
    const inputs = ['{', '["', 'text', '"'].map(coded);
    const answers = await insert(...inputs.map((input) => ({ input })));
    assert.deepEqual(await Promise.all(answers.map(async ({ id }) => (await job(id)).input)), inputs);
  }),
  storeCase('settle: a coded result is kept, and the same one again answers ok', async (bench) => {
    const id = await bench.add();
    const hold = await bench.take();
    assert.equal(await bench.settle(hold, { kind: 'complete', result: coded('result') }), 'ok');
    assert.equal(await bench.settle(hold, { kind: 'complete', result: coded('result') }), 'ok');
    assert.equal(await bench.settle(hold, { kind: 'complete', result: coded('another') }), 'ALREADY_SETTLED');
    assert.equal((await bench.job(id)).result, coded('result'));
  }),
  storeCase('move: a coded reason is kept and told whole', async (bench) => {
    const id = await bench.add();
    const events = await bench.watch();
    await bench.cancel(id, { reason: coded('reason') });
    assert.deepEqual(await bench.error(id), { code: 'CANCELLED', message: coded('reason') });
    const [event] = await events();
    assert.deepEqual(event?.error, { code: 'CANCELLED', message: coded('reason') });
  }),
  storeCase('extend: a coded reason reaches the worker whole', async (bench) => {
    const id = await bench.add();
    const { owner, epoch } = await bench.take();
    await bench.cancel(id, { reason: coded('reason') });
    const { cancelled } = await bench.store.extend({
      owner,
      leaseMs: 30_000,
      claims: [{ epoch, ids: [id], started: [] }],
      card: null,
    });
    assert.deepEqual(cancelled, [{ id, reason: coded('reason') }]);
  }),
  storeCase('note: coded progress and lines are kept as they are', async (bench) => {
    const id = await bench.add();
    const { owner, epoch } = await bench.take();
    const lines = [{ message: '', fields: coded('line') }];
    const news = await bench.watch();
    assert.deepEqual(await bench.store.note(owner, [{ id, epoch, progress: coded('progress'), lines }]), ['ok']);
    assert.equal((await bench.job(id)).progress, coded('progress'));
    assert.equal((await news())[0]?.progress, coded('progress'));
    const [line] = await bench.store.readLines(id);
    assert.deepEqual([line?.message, line?.fields], ['', coded('line')]);
  }),
  storeCase('move: a copy that is coded anew has the id and the input that it was given', async (bench) => {
    const ids = [await bench.add({ input: coded('one') }), await bench.add({ input: coded('two') })];
    const waiting = await bench.add();
    for (const id of ids) await bench.cancel(id);
    const copies = {
      [ids[0]!]: { newId: 'new-1', input: coded('first') },
      [ids[1]!]: { newId: 'new-2', input: coded('second') },
      [waiting]: { newId: 'new-3', input: coded('third') },
    };
    const move = { kind: 'retry', newIds: ['new-1', 'new-2', 'new-3'], copies } as const;
    const dry = await bench.move([...ids, waiting], move, true);
    assert.deepEqual(dry.map(({ outcome }) => outcome).sort(), ['not_finished', 'retried', 'retried']);
    const items = await bench.move([...ids, waiting], move);
    const newIds = new Map(items.map(({ id, newId }) => [id, newId]));
    assert.deepEqual(
      [...ids, waiting].map((id) => newIds.get(id)),
      ['new-1', 'new-2', undefined],
    );
    for (const [id, newId, input] of [
      [ids[0]!, 'new-1', 'first'],
      [ids[1]!, 'new-2', 'second'],
    ] as const) {
      const copy = await bench.job(newId);
      assert.deepEqual([copy.retryOf, copy.input], [id, coded(input)]);
    }
    assert.equal((await bench.job(ids[0]!)).input, coded('one'));
    // This call comes again: nothing is made, and the same is answered.
    assert.deepEqual(
      await bench.move(ids, move),
      items.filter(({ id }) => id !== waiting),
    );
    assert.equal(await bench.exists('new-3'), false);
  }),
];
