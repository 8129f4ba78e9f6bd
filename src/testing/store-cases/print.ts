/** Given ids are compared by prints, because the text of an input that went through a codec is another each time. */
import assert from 'node:assert/strict';
import { printOf } from '../../core/print.js';
import { ending, type JobSketch, newJob, storeCase } from './bench.js';

const given = (fields: JobSketch = {}): JobSketch => ({ id: 'order-7', given: true, print: 'p1', ...fields });

export const printCases = [
  storeCase('insert: a given id with an equal print answers existing, whatever the input reads', async (bench) => {
    await bench.insert(given({ input: '1' }));
    assert.deepEqual(await bench.insert(given({ input: '2' })), [{ id: 'order-7', outcome: 'existing' }]);
    assert.equal((await bench.job('order-7')).input, '1');
  }),
  storeCase('insert: a given id with another print is refused, even where the input reads the same', async (bench) => {
    await bench.insert(given({ input: '1' }));
    const [answer] = await bench.insert(given({ input: '1', print: 'p2' }));
    assert.ok(answer?.outcome === 'refused' && answer.code === 'IDEMPOTENCY_CONFLICT');
    assert.deepEqual(await bench.find(), ['order-7']);
  }),
  storeCase('insert: a print is known while its job runs, after it finished, and by its tombstone', async (bench) => {
    const answers = async (): Promise<unknown[]> =>
      (await bench.insert(given({ input: '3' }), given({ input: '3', print: 'p2' }))).map(({ outcome }) => outcome);
    await bench.insert(given());
    const hold = await bench.take();
    assert.deepEqual(await answers(), ['existing', 'refused']);
    await bench.settle(hold, ending.retry(0));
    assert.deepEqual(await answers(), ['existing', 'refused']);
    await bench.settle(await bench.take(), ending.complete());
    assert.deepEqual(await answers(), ['existing', 'refused']);
    await bench.remove('order-7');
    assert.deepEqual(await answers(), ['existing', 'refused']);
    assert.deepEqual(await bench.find(), []);
  }),
  storeCase('insert: an atomic batch is judged by prints, also within itself', async ({ store, find }) => {
    const batch = (...prints: string[]) => prints.map((print, index) => newJob(given({ input: `${index}`, print })));
    await assert.rejects(
      store.insert(batch('p1', 'p2'), { atomic: true }),
      (error) => (error as { code?: unknown }).code === 'IDEMPOTENCY_CONFLICT',
    );
    assert.deepEqual(await find(), []);
    const answers = await store.insert(batch('p1', 'p1'), { atomic: true });
    assert.deepEqual(
      answers.map(({ outcome }) => outcome),
      ['created', 'existing'],
    );
  }),
  storeCase('insert: a job without a print is compared by its id, type and input', async (bench) => {
    await bench.insert({ id: 'made', input: '{"a":1,"b":2}' });
    const same = printOf('made', 'mail', '{"b":2,"a":1}');
    const other = printOf('made', 'mail', '{"b":2}');
    const answers = await bench.insert(
      { id: 'made', given: true, input: '{"b":2,"a":1}', print: same },
      { id: 'made', given: true, input: '{"b":2}', print: other },
    );
    assert.deepEqual(
      answers.map(({ outcome }) => outcome),
      ['existing', 'refused'],
    );
  }),
  storeCase('move: a job that is retried does not take the print of the old one', async (bench) => {
    await bench.insert(given({ input: '3' }));
    await bench.settle(await bench.take(), ending.fail());
    await bench.move(['order-7'], { kind: 'retry', newIds: ['again'] });
    const [answer] = await bench.insert({ ...given({ input: '4' }), id: 'again' });
    assert.equal(answer?.outcome, 'refused');
    assert.equal((await bench.insert(given()))[0]?.outcome, 'existing');
  }),
];
