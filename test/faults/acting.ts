/** Acts by hand: cancel, retry, remove, reschedule, pause; and the sweep. */
import type { StoredJob } from '../../src/core/store.js';
import type { Acted } from '../../src/queue/acts.js';
import type { Which } from '../../src/queue/filter.js';
import { demand, marked, type Operation, put, repeatable } from './operation.js';
import type { Answer, Process, World } from './world.js';

type Cancelled = Acted<'cancelled' | 'requested' | `already:${string}`>;

function cancelledFor(jobs: readonly StoredJob[], reason: string): void {
  for (const job of jobs)
    demand(
      job.state === 'cancelled' && job.error === JSON.stringify({ code: 'CANCELLED', message: reason }),
      `it is ${job.state}: ${job.error}`,
    );
}

function cancellingPending(which: (ids: readonly string[]) => Which): Operation {
  const ids: string[] = [];
  const call = repeatable('cancel', (process: Process) => process.queue.cancel(which(ids), { reason: 'not needed' }));
  return {
    async setUp(world, a) {
      for (let n = 0; n < 3; n++)
        ids.push(await put(world, a, 'task', 'return', { delay: '60s', subject: 'site:docs' }));
    },
    run: (_, a) => call.run(a),
    async again(_, process) {
      const { items } = await call.again(process);
      for (const { outcome } of items)
        demand(outcome === 'cancelled' || outcome === 'already:cancelled', `cancel was answered ${outcome}`);
    },
    check(world, jobs) {
      cancelledFor(
        jobs.filter(({ id }) => typeof which(ids) !== 'string' || id === which(ids)),
        'not needed',
      );
      demand(
        world.executions.every(({ id }) => id !== which(ids)),
        'a cancelled job ran',
      );
    },
  };
}

function cancellingRunning(force: boolean): Operation {
  let id = '';
  let answer: Answer<Cancelled> | null = null;
  const send = (process: Process): Promise<Cancelled> => process.queue.cancel(id, { reason: 'not needed', force });
  return {
    async setUp(world, a) {
      id = await put(world, a, 'task', 'hold');
      await a.work();
      demand(await world.until(() => world.executions.length === 1, 10_000), 'the job does not run');
    },
    async run(world, a) {
      answer = await a.call('cancel', () => send(a));
      await world.until(() => world.isQuiet(), 20_000);
    },
    async again(world, process) {
      if (!answer?.ok) await process.surely('cancel', () => send(process));
      // The next heartbeat brings the request, or the claim lapses; only then may handlers let go.
      demand(await world.until(() => world.isQuiet(), 120_000), 'the request did not reach its worker');
    },
    check: (_, jobs) => cancelledFor(jobs, 'not needed'),
  };
}

/** Repeating would make a second job: whoever does not know looks for the new one first. */
function retrying(count: number): Operation {
  const ids: string[] = [];
  let answer: Answer<Acted<'retried' | 'already_retried' | 'skipped' | 'not_finished'>> | null = null;
  const send = (process: Process) => process.queue.retry(count === 1 ? ids[0]! : { type: 'job', state: 'failed' });
  const retriesOf = (jobs: readonly { retryOf: string | null }[], id: string): number =>
    jobs.filter(({ retryOf }) => retryOf === id).length;
  return {
    async setUp(world, a) {
      for (let n = 0; n < count; n++) ids.push(await put(world, a, 'task', 'fail', { attempts: 1 }));
      const worker = await a.work();
      demand(await world.until(() => world.isQuiet(), 10_000), 'the jobs do not end');
      a.worker = null;
      await worker.stop();
    },
    async run(_, a) {
      answer = await a.call('retry', () => send(a));
    },
    async again(_, process, then) {
      if (answer?.ok) return;
      if (then === 'restart' || !answer || answer.code === 'RESULT_UNKNOWN') {
        const { items } = await process.surely('find', (queue) => queue.find({ type: 'job' }));
        const made = ids.filter((id) => retriesOf(items, id) > 0).length;
        demand(made === 0 || made === count, `${made} of ${count} jobs were retried`);
        if (made > 0) return;
      }
      await process.surely('retry', () => send(process));
    },
    check(_, jobs) {
      for (const id of ids) demand(retriesOf(jobs, id) === 1, `${retriesOf(jobs, id)} jobs came of one retry`);
      if (answer?.ok)
        for (const { id, newId, outcome } of answer.value.items)
          demand(
            outcome === 'retried' && jobs.find((job) => job.id === newId)?.retryOf === id,
            'the answer names no such job',
          );
    },
  };
}

function removing(state: 'pending' | 'finished' | 'running'): Operation {
  let id = '';
  const call = repeatable('remove', (process: Process) => process.queue.remove(id, { force: state === 'running' }));
  return {
    async setUp(world, a) {
      id = await put(world, a, 'task', state === 'running' ? 'hold' : 'return', {
        delay: state === 'pending' ? '60s' : 0,
      });
      if (state === 'pending') return;
      await a.work();
      demand(await world.until(() => world.executions.length === 1, 10_000), 'the job does not run');
    },
    async run(world, a) {
      world.removed.add(id);
      await call.run(a);
    },
    async again(_, process) {
      const { items } = await call.again(process);
      demand(
        items.every(({ outcome }) => outcome === 'removed'),
        'it was not removed',
      );
      demand((await process.surely('get', (queue) => queue.get(id))) === null, 'it is still there');
    },
    check: (_, jobs) => demand(jobs.length === 0, 'it came back'),
  };
}

function rescheduling(): Operation {
  let id = '';
  const call = repeatable('reschedule', (process: Process) =>
    process.queue.reschedule(id, { delay: '1s', priority: 5 }),
  );
  return {
    async setUp(world, a) {
      id = await put(world, a, 'task', 'return', { delay: '1h' });
    },
    run: (_, a) => call.run(a),
    async again(world, process) {
      const { items } = await call.again(process);
      demand(items[0]?.outcome === 'moved', 'it was not moved');
      const [job] = await world.jobs();
      demand(job!.priority === 5 && job!.scheduledFor < world.clock.now().getTime() + 1_001, 'it stands as before');
    },
  };
}

async function pausedIn(process: Process): Promise<boolean> {
  return (await process.surely('stats', (queue) => queue.stats())).queues.default!.paused;
}

function pausing(queue?: string): Operation {
  const call = repeatable('pause', (process: Process) => process.queue.pause(queue));
  return {
    async setUp(world, a) {
      await put(world, a, 'task', 'return');
    },
    run: (_, a) => call.run(a),
    async again(world, process) {
      await call.again(process);
      demand(await pausedIn(process), 'it is not paused');
      await process.work();
      await world.until(() => false, 6_000);
      demand(world.executions.length === 0, 'a job of a paused queue ran');
      await process.surely('resume', (on) => on.resume(queue));
    },
  };
}

function resuming(queue?: string): Operation {
  const call = repeatable('resume', (process: Process) => process.queue.resume(queue));
  return {
    async setUp(world, a) {
      await put(world, a, 'task', 'return');
      await a.queue.pause(queue);
      await a.work();
    },
    run: (_, a) => call.run(a),
    async again(_, process) {
      await call.again(process);
      demand(!(await pausedIn(process)), 'it is still paused');
    },
  };
}

/** What is past its retention goes, and what is not stays. */
function sweeping(): Operation {
  const call = repeatable('sweep', (process: Process) => process.queue.sweep());
  return {
    options: { cleanup: { jobRetentionMs: 3_600_000 } },
    async setUp(world, a) {
      for (const keep of ['1s', '1h'] as const) {
        const id = await put(world, a, keep, 'return', { delay: '60s', keep });
        if (keep === '1s') world.removed.add(id);
        await a.surely('cancel', (queue) => queue.cancel(id));
      }
      await world.until(() => false, 2_000);
    },
    run: (_, a) => call.run(a),
    again: async (_, process) => void (await call.again(process)),
    check(_: World, jobs) {
      demand(marked(jobs, '1s').length === 0, 'what should go is there');
      demand(marked(jobs, '1h').length === 1, 'what should stay is gone');
    },
  };
}

export const acting: { readonly [name: string]: () => Operation } = {
  'cancel a pending job': () => cancellingPending((ids) => ids[1]!),
  'cancel by filter': () => cancellingPending(() => ({ subject: 'site:docs' })),
  'cancel a running job': () => cancellingRunning(false),
  'cancel a running job by force': () => cancellingRunning(true),
  retry: () => retrying(1),
  'retry by filter': () => retrying(2),
  'remove a pending job': () => removing('pending'),
  'remove a finished job': () => removing('finished'),
  'remove a running job by force': () => removing('running'),
  reschedule: () => rescheduling(),
  'pause one queue': () => pausing('default'),
  'pause every queue': () => pausing(),
  'resume one queue': () => resuming('default'),
  'resume every queue': () => resuming(),
  sweep: () => sweeping(),
};
