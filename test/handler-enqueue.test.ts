/** What a handler reaches of its queue: the queue itself, and an enqueue that counts only while the job is in its hands. */
import { describe, expect, it } from 'vitest';
import { defineJob, type LastoutError } from '../src/index.js';
import { bench, engines, gate, holding, jobType, passing, stateOf, until } from './worker-support.js';

const leaseMs = 30_000;
const tendMs = 5_000;

describe.each(engines)('a handler, on %s', (engine) => {
  it('enqueues by type and by name, with options, and the jobs belong to nobody', async () => {
    await using on = await bench(engine);
    const child = defineJob<{ n: number }>('child', { id: ({ n }) => `child-${n}` });
    const parent = defineJob<null, string[]>('parent', {
      run: async ({ enqueue }) => {
        const one = await enqueue(child, { n: 1 });
        const again = await enqueue(child, { n: 1 });
        const other = await enqueue('other', { a: undefined }, { delay: '1h' });
        return [one.outcome, again.outcome, one.id, other.id];
      },
    });
    await on.queue.work([parent]);
    const { id } = await on.queue.enqueue(parent, null);
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
    const [one, again, childId, otherId] = (await on.queue.get(parent, id))!.result!;
    expect([one, again, childId]).toEqual(['created', 'existing', 'child-1']);
    expect(await on.queue.get(otherId!)).toMatchObject({ type: 'other', state: 'pending', input: {} });
    expect(await on.queue.remove(id)).toMatchObject({ items: [{ outcome: 'removed' }] });
    expect(await on.queue.get('child-1')).not.toBeNull();
  });

  it('gets the queue that its worker belongs to', async () => {
    await using on = await bench(engine);
    const type = defineJob<null>('asks', { run: async ({ queue, job }) => (await queue.get(job.id))!.state });
    await on.queue.work([type]);
    const { id } = await on.queue.enqueue(type, null);
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
    expect(await on.queue.get(id)).toMatchObject({ result: 'processing' });
  });

  it('whose claim has lapsed and whose job another took adds nothing: STALE_CLAIM', async () => {
    await using on = await bench(engine);
    const late = await on.another();
    const held = holding('late');
    await late.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null);
    await on.clock.advance(100);
    const frozen = gate();
    for (const verb of ['extend', 'settle', 'claim', 'sweep', 'sweepInTerm'] as const)
      late.wire.before[verb] = () => frozen.passed;
    const { enqueue } = held.context(id);
    await on.queue.work([jobType('late', () => 'of the new claim')]);
    await on.clock.advance(leaseMs + tendMs);
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
    for (const options of [{}, { id: 'chosen' }, { deduplication: 'replace' }, { exclusiveKey: 'x' }] as const) {
      const refused = enqueue('child', null, options).then(
        () => null,
        (error: LastoutError) => error,
      );
      expect(await passing(on.clock, refused)).toMatchObject({ code: 'STALE_CLAIM', details: { under: id } });
    }
    expect((await on.queue.find({ type: 'child' })).items).toEqual([]);
    frozen.open();
    held.end(id, 'too late');
  });

  it('that was cancelled by force, or whose job was removed, adds nothing either', async () => {
    await using on = await bench(engine, { deaf: true });
    const held = holding('lost');
    await on.queue.work([held.type]);
    const [a, b] = await on.queue.enqueueMany([
      { type: held.type, input: null },
      { type: held.type, input: null },
    ]);
    await on.clock.advance(100);
    await on.queue.cancel(a.id, { force: true });
    await on.queue.remove(b.id, { force: true });
    for (const { id } of [a, b]) {
      const refused = held.context(id).enqueue('child', null);
      await expect(passing(on.clock, refused)).rejects.toMatchObject({ code: 'STALE_CLAIM' });
    }
    expect((await on.queue.find({ type: 'child' })).items).toEqual([]);
    for (const { id } of [a, b]) held.end(id, null);
  });
});
