/** The end of things: stop and close always resolve, say what became of each job, and leave nothing running. */
import { describe, expect, it } from 'vitest';
import { memoryStore, open, type Queue, snooze } from '../src/index.js';
import { expectNothingLeft, fakeClock } from '../src/testing/index.js';
import {
  bench,
  type Bench,
  codeOf,
  engines,
  eventually,
  forever,
  gate,
  holding,
  jobType,
  passing,
  rejected,
  sharedFile,
  startChild,
  stateOf,
  timeUntil,
  until,
} from './worker-support.js';

const nothing = { finished: 0, handedBack: [], abandoned: [], leases: [] };

async function running(on: Bench, options: object = {}, obeys = false) {
  const held = holding('running', options, obeys);
  const worker = await on.queue.work([held.type], { concurrency: 5 });
  const { id } = await on.queue.enqueue(held.type, null);
  await until(on.clock, () => held.started.length === 1);
  return { held, worker, id };
}

describe.each(engines)('stopping a worker on %s', (engine) => {
  it('claims nothing more, lets what runs finish, and reports it', async () => {
    await using on = await bench(engine);
    const { held, worker, id } = await running(on);
    const second = await on.queue.enqueue(held.type, 2);
    await until(on.clock, () => held.started.length === 2);
    const stopping = worker.stop();
    const late = await on.queue.enqueue(held.type, 'late');
    await on.clock.advance(5_000);
    expect(held.started).toEqual([id, second.id]);
    held.end(id, 'one');
    held.end(second.id, rejected(new Error('two')));
    expect(await passing(on.clock, stopping)).toEqual({ finished: 2, handedBack: [], abandoned: [], leases: [] });
    expect(await on.queue.get(id)).toMatchObject({ state: 'completed', result: 'one' });
    expect(await on.queue.get(second.id)).toMatchObject({ state: 'pending', attempts: 1, error: { message: 'two' } });
    expect(await stateOf(on.queue, late.id)).toBe('pending');
    expect(worker.running).toEqual([]);
  });

  it('resolves as soon as everything is done, without waiting for the grace', async () => {
    await using on = await bench(engine);
    const { held, worker, id } = await running(on);
    const stopping = worker.stop({ grace: '1h' });
    held.end(id);
    expect(await timeUntil(on.clock, stopping)).toBe(0);
  });

  it('at the end of the grace the signal aborts with CLOSED, and the job is handed back without using an attempt', async () => {
    await using on = await bench(engine);
    const { held, worker, id } = await running(on, {}, true);
    const { signal } = held.context(id);
    const stopping = worker.stop({ grace: '10s' });
    await on.clock.advance(9_999);
    expect(signal.aborted).toBe(false);
    await on.clock.advance(1);
    expect(signal.reason).toMatchObject({ code: 'CLOSED' });
    expect(await passing(on.clock, stopping)).toEqual({ finished: 0, handedBack: [id], abandoned: [], leases: [] });
    expect(await on.queue.get(id)).toMatchObject({ state: 'pending', attempts: 0, stalls: 0, error: null });
  });

  it('what was handed back runs elsewhere at once', async () => {
    await using on = await bench(engine);
    const { worker, id } = await running(on);
    await passing(on.clock, worker.stop({ grace: '1s' }));
    const other = await on.another();
    await other.queue.work([jobType('running', () => 'elsewhere')]);
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
    expect(await on.queue.get(id)).toMatchObject({ result: 'elsewhere', attempts: 1, stalls: 0 });
  });

  it('a handler that ignores the end is handed back too, and its late word is refused', async () => {
    await using on = await bench(engine);
    const { held, worker, id } = await running(on);
    expect(await timeUntil(on.clock, worker.stop({ grace: '10s' }))).toBeLessThanOrEqual(11_000);
    expect(await on.queue.get(id)).toMatchObject({ state: 'pending', attempts: 0 });
    held.end(id, 'too late');
    await on.clock.advance(1_000);
    expect(await on.queue.get(id)).toMatchObject({ state: 'pending', result: null });
  });

  it('a handler that finishes in its last moment has finished', async () => {
    await using on = await bench(engine);
    const { held, worker, id } = await running(on);
    held.context(id).signal.addEventListener('abort', () => held.end(id, 'just in time'));
    const report = await passing(on.clock, worker.stop({ grace: '1s' }));
    expect(report).toEqual({ finished: 1, handedBack: [], abandoned: [], leases: [] });
    expect(await on.queue.get(id)).toMatchObject({ state: 'completed', result: 'just in time' });
  });

  it('a job with an exclusiveKey whose code still runs is abandoned, never handed back', async () => {
    await using on = await bench(engine);
    const { worker, id } = await running(on, { exclusiveKey: 'k' });
    const report = await passing(on.clock, worker.stop({ grace: '1s' }));
    expect(report).toEqual({ finished: 0, handedBack: [], abandoned: [id], leases: [] });
    const elsewhere: string[] = [];
    await on.queue.work([jobType('running', ({ job }) => void elsewhere.push(job.id), { exclusiveKey: 'k' })]);
    await on.clock.advance(20_000);
    expect(elsewhere).toEqual([]);
    expect(await on.queue.get(id)).toMatchObject({ state: 'processing', attempts: 1 });
    await on.clock.advance(15_000);
    expect(elsewhere).toEqual([id]);
  });

  it('a job with an exclusiveKey whose code has returned is handed back', async () => {
    await using on = await bench(engine);
    const { worker, id } = await running(on, { exclusiveKey: 'k' }, true);
    const report = await passing(on.clock, worker.stop({ grace: '1s' }));
    expect(report).toEqual({ finished: 0, handedBack: [id], abandoned: [], leases: [] });
    expect(await on.queue.get(id)).toMatchObject({ state: 'pending', attempts: 0 });
  });

  it('twice is once, and other workers go on', async () => {
    await using on = await bench(engine);
    const type = jobType('both', () => null);
    const first = await on.queue.work([type]);
    await on.queue.work([type]);
    expect(await Promise.all([first.stop(), first.stop({ grace: 0 })])).toEqual([nothing, nothing]);
    const { id } = await on.queue.enqueue(type, null);
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
  });

  it('await using stops it', async () => {
    await using on = await bench(engine);
    const type = jobType('scoped', () => null);
    {
      await using worker = await on.queue.work([type]);
      expect(worker.running).toEqual([]);
    }
    const { id } = await on.queue.enqueue(type, null);
    await on.clock.advance(1_000);
    expect(await stateOf(on.queue, id)).toBe('pending');
  });

  it.each([
    ['a grace without a unit', { grace: '5' }, 'INVALID_DURATION'],
    ['a negative grace', { grace: -1 }, 'INVALID_DURATION'],
    ['a misspelt option', { grase: 5 }, 'UNKNOWN_OPTION'],
  ])('%s is refused and stops nothing', async (_, options, code) => {
    await using on = await bench(engine);
    const worker = await on.queue.work([jobType('still', () => null)]);
    expect(await codeOf(Promise.resolve().then(() => worker.stop(options as object)))).toBe(code);
    expect(await codeOf(Promise.resolve().then(() => on.queue.close(options as object)))).toBe(code);
    const { id } = await on.queue.enqueue('still', null);
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
  });
});

describe.each(engines)('closing a queue on %s', (engine) => {
  const graceMs = 5_000;

  /** Closes, holds the bound, and looks that nothing goes on afterwards. */
  async function closes(on: Bench) {
    const closing = on.queue.close({ grace: graceMs });
    const took = await timeUntil(on.clock, closing, 50);
    expect(took).toBeLessThanOrEqual(graceMs + 1_000);
    const calls = on.wire.calls.length;
    await on.clock.advance(120_000);
    expect(on.wire.calls.length).toBe(calls);
    expect(on.clock.pendingTimers).toBe(0);
    return { took, report: await closing };
  }

  it('before any work', async () => {
    await using on = await bench(engine);
    expect(await closes(on)).toEqual({ took: 0, report: nothing });
  });

  it('while idle', async () => {
    await using on = await bench(engine);
    await on.queue.work([jobType('idle', () => null)]);
    await on.clock.advance(10_000);
    expect(await closes(on)).toEqual({ took: 0, report: nothing });
  });

  it('while busy', async () => {
    await using on = await bench(engine);
    const { id } = await running(on);
    const { report } = await closes(on);
    expect(report).toEqual({ finished: 0, handedBack: [id], abandoned: [], leases: [] });
    const other = await on.another();
    expect(await other.queue.get(id)).toMatchObject({ state: 'pending', attempts: 0 });
  });

  it('with a job that snoozes for ever', async () => {
    await using on = await bench(engine);
    let runs = 0;
    const type = jobType('loop', () => {
      runs += 1;
      return snooze(10);
    });
    await on.queue.work([type]);
    await on.queue.enqueue(type, null);
    await on.clock.advance(1_000);
    const { took } = await closes(on);
    expect(took).toBe(0);
    const before = runs;
    await on.clock.advance(1_000);
    expect(runs).toBe(before);
  });

  it('with a backlog and jobs that end all the time', async () => {
    await using on = await bench(engine);
    const type = jobType('backlog', () => null);
    await on.queue.enqueueMany(Array.from({ length: 1_000 }, (_, input) => ({ type, input })));
    await on.queue.work([type], { concurrency: 3 });
    await on.clock.settle();
    const { report } = await closes(on);
    const other = await on.another();
    const { total } = await other.queue.stats();
    expect(total).toMatchObject({ processing: 0 });
    expect(total.pending + total.completed).toBe(1_000);
    expect(report.abandoned).toEqual([]);
  });

  it('with the store down: what could not be settled is said to be abandoned, and comes back by its lease', async () => {
    await using on = await bench(engine);
    const { held, id } = await running(on);
    on.wire.down = true;
    held.end(id, 'unheard');
    const { report } = await closes(on);
    expect(report).toEqual({ finished: 0, handedBack: [], abandoned: [id], leases: [] });
    const other = await on.another();
    await other.queue.work([jobType('running', () => 'again')]);
    await on.clock.advance(36_000);
    expect(await other.queue.get(id)).toMatchObject({ state: 'completed', result: 'again' });
  });

  it('with the store hanging', async () => {
    await using on = await bench(engine);
    const { held, id } = await running(on);
    for (const verb of ['insert', 'claim', 'extend', 'settle', 'sweep', 'sweepInTerm'] as const)
      on.wire.before[verb] = forever;
    held.end(id, 'unheard');
    await on.clock.advance(6_000);
    const unanswered = on.queue.enqueue('lost', null);
    unanswered.catch(() => undefined);
    const { report } = await closes(on);
    expect(report).toEqual({ finished: 0, handedBack: [], abandoned: [id], leases: [] });
  });

  it('with the store hanging on the hand-back: nothing is said to be handed back that may not be', async () => {
    await using on = await bench(engine);
    const { id } = await running(on);
    on.wire.before.settle = forever;
    const { report } = await closes(on);
    expect(report).toEqual({ finished: 0, handedBack: [], abandoned: [id], leases: [] });
  });

  it('twice: both get the same report', async () => {
    await using on = await bench(engine);
    const { held, id } = await running(on);
    const both = Promise.all([on.queue.close(), on.queue.close({ grace: 0 })]);
    held.end(id);
    const [first, second] = await passing(on.clock, both);
    expect(first).toEqual({ finished: 1, handedBack: [], abandoned: [], leases: [] });
    expect(second).toEqual(first);
  });

  it('a worker that is stopping already is waited for', async () => {
    await using on = await bench(engine);
    const { held, worker, id } = await running(on);
    const stopping = worker.stop({ grace: '30s' });
    await on.clock.advance(1_000);
    const closing = on.queue.close();
    held.end(id);
    expect(await passing(on.clock, stopping)).toMatchObject({ finished: 1 });
    await passing(on.clock, closing);
    const other = await on.another();
    expect(await stateOf(other.queue, id)).toBe('completed');
  });

  it('a job that throws meanwhile is settled', async () => {
    await using on = await bench(engine);
    const { held, id } = await running(on, { attempts: 1 });
    const closing = on.queue.close();
    await on.clock.advance(100);
    held.end(id, rejected(new Error('at the end')));
    expect(await passing(on.clock, closing)).toEqual({ finished: 1, handedBack: [], abandoned: [], leases: [] });
    const other = await on.another();
    expect(await other.queue.get(id)).toMatchObject({ state: 'failed', error: { message: 'at the end' } });
  });

  it('heartbeats go on while it drains', async () => {
    await using on = await bench(engine);
    const { held, id } = await running(on);
    const other = await on.another();
    let elsewhere = 0;
    await other.queue.work([jobType('running', () => void (elsewhere += 1))]);
    const closing = on.queue.close({ grace: '10m' });
    await on.clock.advance(90_000);
    expect(await other.queue.get(id)).toMatchObject({ state: 'processing', stalls: 0 });
    held.end(id, 'three leases later');
    expect(await passing(on.clock, closing)).toMatchObject({ finished: 1 });
    expect(await other.queue.get(id)).toMatchObject({ state: 'completed', stalls: 0, attempts: 1 });
    expect(elsewhere).toBe(0);
  });

  it('enqueues under way are answered before it ends, and stored', async () => {
    await using on = await bench(engine);
    const slow = gate();
    on.wire.before.insert = () => slow.passed;
    const asked = [on.queue.enqueue('kept', 1), on.queue.enqueue('kept', 2)];
    const batch = on.queue.enqueueMany([{ type: 'kept', input: 3 }]);
    const order: string[] = [];
    void Promise.all([...asked, batch]).then(() => order.push('answered'));
    const closing = on.queue.close().then(() => order.push('closed'));
    await on.clock.settle();
    expect(order).toEqual([]);
    slow.open();
    await closing;
    expect(order).toEqual(['answered', 'closed']);
    const other = await on.another();
    expect((await other.queue.find({ type: 'kept' })).items).toHaveLength(3);
  });

  it('whoever waits for a job is told, and event streams end', async () => {
    await using on = await bench(engine);
    const { id } = await on.queue.enqueue('never', null, { delay: '1h' });
    const waited = codeOf(on.queue.wait(id));
    const streamed = (async () => {
      let events = 0;
      for await (const _ of on.queue.events()) events += 1;
      return events;
    })();
    await on.clock.settle();
    await on.queue.close();
    expect(await passing(on.clock, waited)).toBe('CLOSED');
    expect(await passing(on.clock, streamed)).toBe(0);
  });

  it('a sweep under way is waited for', async () => {
    await using on = await bench(engine);
    await on.clock.settle(); // the sweep of the opening is over
    const slow = gate();
    on.wire.before.sweepInTerm = () => slow.passed;
    const swept = on.queue.sweep();
    let isClosed = false;
    const closing = on.queue.close().then(() => {
      isClosed = true;
    });
    await on.clock.settle();
    expect(isClosed).toBe(false);
    slow.open();
    await closing;
    expect(await swept).toMatchObject({ removed: 0 });
  });

  it('a shorter grace counts also while a longer one is under way', async () => {
    await using on = await bench(engine);
    const { worker, id } = await running(on);
    const stopping = worker.stop({ grace: '1h' });
    const closing = on.queue.close({ grace: 0 });
    expect(await timeUntil(on.clock, closing)).toBeLessThanOrEqual(1_000);
    expect(await stopping).toEqual({ finished: 0, handedBack: [id], abandoned: [], leases: [] });
  });

  it('a handler that is being waited for may still enqueue what follows', async () => {
    await using on = await bench(engine);
    const { held, id } = await running(on);
    const closing = on.queue.close();
    const next = await on.queue.enqueue(held.type, 'next');
    expect(await on.queue.get(next.id)).toMatchObject({ state: 'pending' });
    expect(await codeOf(on.queue.work([held.type]))).toBe('CLOSED');
    held.end(id);
    expect(await passing(on.clock, closing)).toEqual({ finished: 1, handedBack: [], abandoned: [], leases: [] });
    expect(await codeOf(on.queue.enqueue(held.type, 'too late'))).toBe('CLOSED');
  });

  it('calls after it are refused with CLOSED', async () => {
    await using on = await bench(engine);
    const { queue } = on;
    const type = jobType('closed', () => null);
    const { id } = await queue.enqueue(type, null);
    await queue.close();
    const calls: Record<string, () => unknown> = {
      enqueue: () => queue.enqueue(type, null),
      enqueueMany: () => queue.enqueueMany([{ type, input: null }]),
      work: () => queue.work([type]),
      get: () => queue.get(id),
      find: () => queue.find(),
      logs: () => queue.logs(id),
      stats: () => queue.stats(),
      cancel: () => queue.cancel(id),
      retry: () => queue.retry(id),
      remove: () => queue.remove(id),
      reschedule: () => queue.reschedule(id, { delay: 0 }),
      pause: () => queue.pause(),
      resume: () => queue.resume(),
      wait: () => queue.wait(id),
      events: () => queue.events(),
      on: () => queue.on('created', () => undefined),
      sweep: () => queue.sweep(),
    };
    const before = on.wire.calls.length;
    for (const [name, call] of Object.entries(calls))
      expect([name, await codeOf(Promise.resolve().then(call))]).toEqual([name, 'CLOSED']);
    queue.startPeriodicCleanup();
    await queue.stopPeriodicCleanup();
    expect(on.wire.calls.length).toBe(before);
    expect(await queue.health()).toMatchObject({ ok: false, warnings: [{ code: 'CLOSED' }] });
  });

  it('leaves other queues on the same store alone', async () => {
    await using on = await bench(engine);
    const other = await on.another();
    const type = jobType('other', () => null);
    await other.queue.work([type]);
    await on.queue.close();
    const { id } = await other.queue.enqueue(type, null);
    await until(on.clock, async () => (await stateOf(other.queue, id)) === 'completed');
    await expectNothingLeft(other.queue);
  });
});

it('await using closes the queue', async () => {
  const store = memoryStore();
  const clock = fakeClock();
  let kept: Queue;
  {
    await using queue = await open(store, { clock });
    kept = queue;
    await queue.enqueue('scoped', null);
  }
  expect(await codeOf(kept.stats())).toBe('CLOSED');
  expect(clock.pendingTimers).toBe(0);
});

describe('as a process', () => {
  async function withJob(ms: number, mode = 'patient') {
    const shared = await sharedFile();
    const queue = await open(`sqlite:${shared.file}`);
    const child = startChild(mode, shared.file);
    await child.said('ready');
    const { id } = await queue.enqueue('takes', ms);
    await child.said(`started ${id}`);
    return {
      queue,
      child,
      id,
      async [Symbol.asyncDispose]() {
        await child[Symbol.asyncDispose]();
        await queue.close();
        await shared[Symbol.asyncDispose]();
      },
    };
  }

  it.each(['SIGTERM', 'SIGINT'] as const)('%s drains what runs and ends with 0', async (signal) => {
    await using on = await withJob(700);
    on.child.kill(signal);
    const late = await on.queue.enqueue('takes', 0);
    expect(await on.child.exited).toEqual({ code: 0, signal: null });
    expect(on.child.lines).toContain(`finished ${on.id}`);
    expect(await on.queue.get(on.id)).toMatchObject({ state: 'completed', attempts: 1, stalls: 0 });
    expect((await on.queue.get(late.id))!.stalls).toBe(0);
  });

  it('a signal that arrives twice at once, from the terminal and from a wrapper, counts once', async () => {
    await using on = await withJob(500);
    on.child.kill('SIGINT');
    on.child.kill('SIGINT');
    expect(await on.child.exited).toEqual({ code: 0, signal: null });
    expect(on.child.lines).toContain(`finished ${on.id}`);
  });

  it.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const)('a second %s ends it at once with %i', async (signal, code) => {
    await using on = await withJob(15_000);
    let isOver = false;
    void on.child.exited.then(() => {
      isOver = true;
    });
    await eventually(() => {
      on.child.kill(signal);
      return isOver;
    }, 'the end of the child');
    expect(await on.child.exited).toEqual({ code, signal: null });
    expect(on.child.lines).not.toContain(`finished ${on.id}`);
  });

  it('an idle worker lives until a signal', async () => {
    await using shared = await sharedFile();
    await using queue = await open(`sqlite:${shared.file}`);
    await using child = startChild('patient', shared.file);
    await child.said('ready');
    const { id } = await queue.enqueue('takes', 0);
    await child.said(`finished ${id}`);
    child.kill('SIGTERM');
    expect(await child.exited).toEqual({ code: 0, signal: null });
  });

  it('an onClosed that fails is logged, and the process ends with 1', async () => {
    await using shared = await sharedFile();
    await using child = startChild('failing', shared.file);
    await child.said('ready');
    child.kill('SIGTERM');
    expect(await child.exited).toEqual({ code: 1, signal: null });
    expect(child.lines).toEqual(['ready', 'closed 0', 'error Closing on a signal failed']);
  });

  it('one that waits for a delayed job stays until it is done', async () => {
    await using shared = await sharedFile();
    await using child = startChild('waiting', shared.file);
    expect(await child.said('state')).toBe('state completed');
    expect(await child.exited).toEqual({ code: 0, signal: null });
  });

  it('one that is killed leaves its job to the next', async () => {
    await using shared = await sharedFile();
    await using queue = await open(`sqlite:${shared.file}`);
    await using child = startChild('crash', shared.file);
    await child.said('ready');
    const { id } = await queue.enqueue('waits', null);
    await child.said(`started ${id}`);
    child.kill('SIGKILL');
    await child.exited;
    await queue.work([jobType('waits', () => 'recovered')]);
    await eventually(async () => (await stateOf(queue, id)) === 'completed', 'the recovery');
    expect(await queue.get(id)).toMatchObject({ result: 'recovered', stalls: 1, attempts: 1 });
  });
});
