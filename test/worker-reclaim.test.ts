// A worker that was out of touch for longer than its lease may be given the same job again while its old code still runs.
import { describe, expect, test } from 'vitest';
import type { Context } from '../src/index.js';
import { type Bench, bench, engines, type Gate, gate, jobType, passing, stateOf, until } from './worker-support.js';

interface Attempt extends Gate<unknown> {
  readonly context: Context<any>;
}

/** One worker, one job that lapsed while a heartbeat was on its way, and was claimed again by the same worker. */
async function reclaimed(on: Bench, concurrency: number): Promise<{ id: string; runs: Attempt[]; answerBeat(): void }> {
  const { queue, clock, wire } = on;
  const runs: Attempt[] = [];
  const type = jobType('report', (context) => {
    const attempt = { ...gate<unknown>(), context };
    runs.push(attempt);
    return attempt.passed;
  });
  const beat = gate();
  wire.before.extend = () => beat.passed;
  await queue.work([type], { concurrency, lease: '1s' });
  const { id } = await queue.enqueue(type, null);
  await until(clock, () => runs.length === 1, 'the first run');
  for (let passed = 0; runs.length < 2 && passed < 3_000; passed += 100) await clock.advance(100);
  expect(runs).toHaveLength(2);
  return { id, runs, answerBeat: () => beat.open() };
}

describe.each(engines)('on %s', (engine) => {
  test('a job that comes back to the worker that lost it runs to its end under its new claim', async () => {
    await using on = await bench(engine);
    const { id, runs, answerBeat } = await reclaimed(on, 2);
    answerBeat();
    await on.clock.advance(400);
    expect(runs[0]!.context.signal.reason).toMatchObject({ code: 'STALE_CLAIM' });
    expect(runs[1]!.context.signal.aborted).toBe(false);

    runs[0]!.open('of the old claim');
    runs[1]!.open('of the new claim');
    await passing(on.clock, on.queue.wait(id));
    const job = await on.queue.get(id);
    expect(job).toMatchObject({ state: 'completed', result: 'of the new claim', stalls: 1, attempts: 1 });
  });

  test('the old code of a job that came back frees no slot of the new run when it ends', async () => {
    await using on = await bench(engine);
    const { id, runs } = await reclaimed(on, 2);
    runs[0]!.open('of the old claim');
    await on.clock.settle();
    expect(runs[0]!.context.signal.aborted).toBe(true);
    expect(on.wire.of('settle')).toEqual([]);
    await on.queue.enqueueMany(Array.from({ length: 3 }, () => ({ type: 'report', input: null })));
    await on.clock.advance(300);
    // Two slots: the new run has one of them.
    expect(runs.slice(2)).toHaveLength(1);
    expect(await stateOf(on.queue, id)).toBe('processing');
  });
});
