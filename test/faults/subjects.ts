/** Subjects: ending one, lifting it again, and the sweep for orphans. */
import type { StoredJob } from '../../src/core/store.js';
import type { Presence } from '../../src/index.js';
import { demand, freshId, marked, type Operation, put, repeatable } from './operation.js';
import type { Process } from './world.js';

function demandEnded(jobs: readonly StoredJob[], code: string, message: string): void {
  for (const { state, error } of jobs)
    demand(state === 'cancelled' && error === JSON.stringify({ code, message }), `it is ${state}: ${error}`);
}

async function demandFenced(process: Process, subject: string): Promise<void> {
  const answer = await process.call('enqueue', (queue) =>
    queue.enqueue('job', { mark: 'late', how: 'return' }, { subject }),
  );
  demand(!answer.ok && answer.code === 'SUBJECT_ENDED', 'a job of an ended subject came in');
}

function endingSubject(how: 'pending' | 'running'): Operation {
  const subject = `trip:${freshId('ended')}`;
  const call = repeatable('endSubject', (process: Process) =>
    process.queue.endSubject(subject, 'trip cancelled', { artifacts: true }),
  );
  return {
    options: { artifacts: 'memory' },
    async setUp(world, a) {
      for (const delay of [0, '60s'] as const)
        await put(world, a, 'other', 'return', { delay, subject: `${subject}-other` });
      if (how === 'pending') {
        for (let n = 0; n < 3; n++) await put(world, a, 'task', 'return', { delay: '60s', subject });
        return;
      }
      await put(world, a, 'task', 'hold', { subject });
      await a.work();
      const isHeld = (): boolean => world.executions.some(({ outcome }) => outcome === 'running');
      demand(await world.until(isHeld, 10_000), 'the job does not run');
    },
    run: (_, a) => call.run(a),
    async again(world, process) {
      await call.again(process);
      await demandFenced(process, subject);
      const isOver = async (): Promise<boolean> =>
        marked(await world.jobs(), 'task').every(({ state }) => state !== 'pending' && state !== 'processing');
      demand(await world.until(isOver, 120_000), 'the request did not reach its worker');
      const { underWay, cancelled } = await process.surely('endSubject', (queue) =>
        queue.endSubject(subject, 'trip cancelled'),
      );
      demand(underWay.length === 0 && cancelled === 0, 'the certificate does not stay true');
    },
    check(world, jobs) {
      demandEnded(marked(jobs, 'task'), 'CANCELLED', 'trip cancelled');
      for (const { state } of marked(jobs, 'other')) demand(state === 'completed', `a job of another ended ${state}`);
      const ran = new Set(world.executions.map(({ id }) => id));
      if (how === 'pending')
        demand(
          marked(jobs, 'task').every(({ id }) => !ran.has(id)),
          'a cancelled job ran',
        );
    },
  };
}

function lifting(): Operation {
  const subject = `trip:${freshId('lifted')}`;
  const call = repeatable('liftSubject', (process: Process) => process.queue.liftSubject(subject));
  return {
    setUp: async (_, a) => void (await a.queue.endSubject(subject, 'by mistake')),
    run: (_, a) => call.run(a),
    async again(world, process) {
      await call.again(process);
      await put(world, process, 'task', 'return', { subject });
    },
    check: (_, jobs) => demand(marked(jobs, 'task')[0]?.state === 'completed', 'it was not lifted'),
  };
}

/** Whatever fails: those that are absent or over are found in the end, the present one and the one of which nothing is known stay. */
function sweepingOrphans(): Operation {
  const kind = freshId('trip');
  const isThere: { readonly [id: string]: Presence } = {
    ...{ here: 'present', gone: 'absent', done: 'over', dark: 'unknown' },
  };
  const define = (process: Process): void =>
    process.queue.defineSubject(kind, {
      check: async (ids) => ids.map((id) => isThere[id]!),
      every: '2s',
    });
  return {
    async setUp(world, a) {
      for (const id of Object.keys(isThere))
        await put(world, a, id, 'return', { delay: '150s', subject: `${kind}:${id}` });
    },
    async run(world, a) {
      define(a);
      await world.until(() => false, 13_000);
    },
    async again(world, process, then) {
      if (then === 'restart') define(process);
      const areFound = async (): Promise<boolean> => {
        const jobs = await world.jobs();
        return ['gone', 'done'].every((id) => marked(jobs, id)[0]?.state === 'cancelled');
      };
      demand(await world.until(areFound, 130_000), 'an orphan was not found');
    },
    check(_, jobs) {
      demandEnded(marked(jobs, 'gone'), 'ORPHANED', `The subject ${kind}:gone is gone`);
      demandEnded(marked(jobs, 'done'), 'ORPHANED', `The subject ${kind}:done is over`);
      for (const id of ['here', 'dark'])
        demand(marked(jobs, id)[0]?.state === 'completed', `the one that is ${isThere[id]} did not run`);
    },
  };
}

export const ending: { readonly [name: string]: () => Operation } = {
  'end a subject': () => endingSubject('pending'),
  'end a subject whose job runs': () => endingSubject('running'),
  'lift a subject': () => lifting(),
  'sweep for orphans': () => sweepingOrphans(),
};
