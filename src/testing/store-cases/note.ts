/** Notes under a claim: progress, and a bounded log per job. */
import assert from 'node:assert/strict';
import { ending, storeCase } from './bench.js';

export const noteCases = [
  storeCase('note: progress stands with the job, the last one counts', async ({ add, take, note, job }) => {
    const id = await add();
    const hold = await take();
    assert.equal(await note(hold, { progress: '{"percent":10}' }), 'ok');
    assert.equal(await note(hold, { progress: '{"percent":20,"step":"b"}' }), 'ok');
    assert.equal((await job(id)).progress, '{"percent":20,"step":"b"}');
  }),
  storeCase('note: each event of progress carries its own, as it was given', async ({ add, take, note, watch }) => {
    await add();
    const hold = await take();
    const news = await watch();
    const given = ['{"percent":10}', '{"percent":20,"step":"b","message":"ä"}'];
    for (const progress of given) await note(hold, { progress });
    const told = (await news()).map(({ name, id, progress }) => [name, id, progress]);
    assert.deepEqual(
      told,
      given.map((progress) => ['progress', hold.id, progress]),
    );
  }),
  storeCase('note: lines alone leave progress as it is', async ({ add, take, note, job }) => {
    const id = await add();
    const hold = await take();
    await note(hold, { progress: '{"percent":10}' });
    await note(hold, { lines: ['x'] });
    assert.equal((await job(id)).progress, '{"percent":10}');
  }),
  storeCase('note: progress stays with a finished job', async ({ add, take, note, settle, job }) => {
    const id = await add();
    const hold = await take();
    await note(hold, { progress: '{"percent":99}' });
    await settle(hold, ending.complete());
    assert.equal((await job(id)).progress, '{"percent":99}');
  }),
  storeCase(
    'note: lines are read in their order, with their instant',
    async ({ store, add, take, note, advance, now }) => {
      const id = await add();
      const hold = await take();
      const start = now();
      await note(hold, { lines: ['one', 'two'] });
      advance(5);
      await note(hold, { lines: ['three'] });
      assert.deepEqual(await store.readLines(id), [
        { at: start, message: 'one', fields: null },
        { at: start, message: 'two', fields: null },
        { at: start + 5, message: 'three', fields: null },
      ]);
    },
  ),
  storeCase('note: lines carry their fields to the letter', async ({ store, add, take }) => {
    const id = await add();
    const { epoch, owner } = await take();
    const line = { message: 'ä\n"', fields: '{"a":[],"b":{}}' };
    await store.note(owner, [{ id, epoch, progress: null, lines: [line] }]);
    const [{ at: _, ...stored } = { at: 0 }] = await store.readLines(id);
    assert.deepEqual(stored, line);
  }),
  storeCase(
    'note: lines go on over attempts and stay with the finished job',
    async ({ store, add, take, note, settle }) => {
      const id = await add();
      for (const message of ['first', 'second']) {
        const hold = await take();
        await note(hold, { lines: [message] });
        await settle(hold, message === 'first' ? ending.retry(0) : ending.complete());
      }
      const lines = await store.readLines(id);
      assert.deepEqual(
        lines.map(({ message }) => message),
        ['first', 'second'],
      );
    },
  ),
  storeCase('note: 1,000 lines are kept, then one that says truncated', async ({ store, add, take, note }) => {
    const id = await add();
    const hold = await take();
    for (let i = 0; i < 4; i++)
      assert.equal(await note(hold, { lines: Array.from({ length: 300 }, (_, j) => `line ${i * 300 + j}`) }), 'ok');
    await note(hold, { lines: ['one more'] });
    const lines = await store.readLines(id);
    assert.equal(lines.length, 1_001);
    assert.deepEqual([lines[999]?.message, lines[1_000]?.message], ['line 999', 'truncated']);
  }),
  storeCase('note: exactly 1,000 lines are not truncated', async ({ store, add, take, note }) => {
    const id = await add();
    await note(await take(), { lines: Array.from({ length: 1_000 }, () => 'x') });
    const lines = await store.readLines(id);
    assert.deepEqual([lines.length, lines.at(-1)?.message], [1_000, 'x']);
  }),
  storeCase('note: lines of 256 KiB are kept, then one that says truncated', async ({ store, add, take, note }) => {
    const id = await add();
    const hold = await take();
    for (let i = 0; i < 40; i++) await note(hold, { lines: ['x'.repeat(8 * 1024)] });
    const lines = await store.readLines(id);
    assert.deepEqual([lines.length, lines.at(-1)?.message], [33, 'truncated']);
  }),
  storeCase('note: notes of one call are answered one by one', async ({ store, insert, claimIds, job }) => {
    await insert({ id: 'a' }, { id: 'b' });
    await claimIds();
    const { epoch } = await job('a');
    const notes = [
      { id: 'a', epoch, progress: '{"percent":1}', lines: [] },
      { id: 'b', epoch: epoch + 1, progress: '{"percent":2}', lines: [] },
    ];
    assert.deepEqual(await store.note('worker-1', notes), ['ok', 'STALE_CLAIM']);
    assert.equal((await job('b')).progress, null);
  }),
  storeCase('note: a job without lines reads as none', async ({ store, add }) => {
    assert.deepEqual(await store.readLines(await add()), []);
    assert.deepEqual(await store.readLines('nobody'), []);
  }),
];
