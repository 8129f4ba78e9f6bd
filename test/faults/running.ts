/** Working, stopping and closing. */
import type { FinishedState, JobOptions } from '../../src/index.js';
import type { How } from './handlers.js';
import { demand, marked, type Operation, put } from './operation.js';

/** Faults that last are lifted after this long: within the lease of a claim, so that no claim must lapse. */
const faultMs = 20_000;

/** A worker meets the fault; afterwards it goes on by itself, or another process does its work. */
export function working(
  tasks: readonly (readonly [How, FinishedState, JobOptions?])[],
  more: Pick<Operation, 'check'> & { faultMs?: number } = {},
): Operation {
  return {
    async setUp(world, a) {
      let n = 0;
      for (const [how, , options] of tasks) await put(world, a, `task ${n++}`, how, options);
    },
    async run(world, a) {
      await a.work();
      await world.until(() => world.isQuiet(), more.faultMs ?? faultMs);
    },
    async check(world, jobs, then) {
      tasks.forEach(([how, state], index) => {
        const [job] = marked(jobs, `task ${index}`);
        demand(job?.state === state, `"${how}" ended ${job?.state} and not ${state}: ${job?.error}`);
      });
      await more.check?.(world, jobs, then);
    },
  };
}

function talking(): Operation {
  return working([['talk', 'completed']], {
    async check(world, jobs) {
      const lines = await world.store.readLines(jobs[0]!.id);
      const began = world.executions.length;
      demand(lines.length <= 2 * began, `${lines.length} lines of ${began} runs of two lines each`);
    },
  });
}

/** The child has an id, so a handler that runs twice makes it once. */
function enqueueingInside(): Operation {
  return working([['enqueue', 'completed', { attempts: 20 }]], {
    check(_, jobs) {
      demand(marked(jobs, 'child').length === 1, `${marked(jobs, 'child').length} children`);
    },
  });
}

function stopping(how: 'stop' | 'close', handler: How, grace: '0s' | '10s'): Operation {
  let ids: string[] = [];
  let report: { finished: number; handedBack: readonly string[]; abandoned: readonly string[] } | null = null;
  return {
    stops: true,
    ...(how === 'close' && { closes: true }),
    async setUp(world, a) {
      ids = [await put(world, a, 'task 0', handler), await put(world, a, 'task 1', handler, { exclusiveKey: 'one' })];
      await a.work();
      demand(await world.until(() => world.executions.length === 2, 10_000), 'the jobs do not run');
      await put(world, a, 'task 2', 'return', { delay: '500ms' });
    },
    async run(_, a) {
      const stop = { grace } as const;
      const answer = await (how === 'close'
        ? a.call('close', (queue) => queue.close(stop))
        : a.call('stop', () => a.worker!.stop(stop)));
      a.worker = null;
      if (!answer.ok) throw new Error(`${how} was refused: ${answer.error.message}`);
      report = answer.value;
    },
    async again(world) {
      if (!report) return;
      // What was handed back is not held, unless another worker has it by now.
      const jobs = new Map((await world.jobs()).map((job) => [job.id, job]));
      for (const id of report.handedBack)
        demand(jobs.get(id)!.state !== 'processing', 'a job is said to be handed back and is still held');
    },
    check(_, jobs) {
      for (const job of jobs) demand(job.state === 'completed', `it ended ${job.state}: ${job.error}`);
      demand(jobs.length === 3 && ids.length === 2, 'jobs are missing');
      demand(
        report === null || report.finished + report.handedBack.length + report.abandoned.length <= 3,
        'told twice',
      );
    },
  };
}

export const running: { readonly [name: string]: () => Operation } = {
  'open, and work': () => ({
    opens: true,
    async run(world, a) {
      await a.work();
      await world.until(() => false, 6_000);
    },
    async again(world, process) {
      await put(world, process, 'new', 'return');
    },
    check: (_, jobs) => demand(jobs[0]?.state === 'completed', 'the job was not worked'),
  }),
  'work: the job completes': () => working([['return', 'completed']]),
  'work: several jobs': () =>
    working([
      ['return', 'completed'],
      ['throw once', 'completed'],
      ['fail', 'failed'],
      ['cancel', 'cancelled'],
    ]),
  'work: the job throws and is retried': () => working([['throw once', 'completed']]),
  'work: the job throws at every attempt': () => working([['throw', 'failed']]),
  'work: the job snoozes': () => working([['snooze once', 'completed']]),
  'work: the job returns fail': () => working([['fail', 'failed']]),
  'work: the job returns cancel': () => working([['cancel', 'cancelled']]),
  'work: the job exceeds its time limit and obeys': () =>
    working([['obey the time limit', 'failed', { timeout: '1s' }]]),
  'work: the job exceeds its time limit and does not obey': () =>
    working([['ignore the time limit', 'failed', { timeout: '1s', attempts: 1 }]]),
  'work: the job logs and reports progress': () => talking(),
  'work: the job takes long': () => working([['take long', 'completed']], { faultMs: 35_000 }),
  'work: the job enqueues another': () => enqueueingInside(),
  'work: an exclusive key': () =>
    working([
      ['return', 'completed', { exclusiveKey: 'one' }],
      ['throw once', 'completed', { exclusiveKey: 'one' }],
    ]),
  'worker.stop, patient': () => stopping('stop', 'take long', '10s'),
  'worker.stop, at once': () => stopping('stop', 'hold', '0s'),
  'close, patient': () => stopping('close', 'take long', '10s'),
  'close, at once': () => stopping('close', 'hold', '0s'),
};
