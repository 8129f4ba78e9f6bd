/** Enqueueing, in all its ways. */
import type { JobOptions } from '../../src/index.js';
import type { Task } from './handlers.js';
import { careful, demand, freshId, marked, type Operation, put, repeatable } from './operation.js';
import type { Process, World } from './world.js';

const task: Task = { mark: 'new', how: 'return' };

/** One logical call, one job: exactly one where the caller could see it through, at most one where it died. */
function enqueueing(options: JobOptions): Operation {
  let call!: ReturnType<typeof careful>;
  return {
    async run(world, a) {
      call = careful(world, task, options);
      await call.run(a);
    },
    again: (_, process, then) => call.again(process, then),
    check(_, jobs, then) {
      const made = marked(jobs, 'new');
      const mayBeMissing = then === 'restart' && !call.answer?.ok;
      demand(made.length === 1 || (made.length === 0 && mayBeMissing), `${made.length} jobs for one enqueue`);
      if (call.answer?.ok) demand(made[0]!.id === call.answer.value.id, 'the id of another job was given');
      for (const job of made) demand(job.state === 'completed', `it is ${job.state}`);
    },
  };
}

/** With a pending match that is not due yet. */
function deduplicating(
  deduplication: 'skip' | 'replace' | 'coalesce',
  check: (seen: { old: string; created: number; answered: string | null }) => void,
  options: JobOptions = {},
): Operation {
  let call!: ReturnType<typeof careful>;
  const given: JobOptions = { deduplication, deduplicationKey: 'one', ...options };
  return {
    async setUp(world, a) {
      await put(world, a, 'old', 'return', { ...given, id: freshId('old'), delay: '100s' });
    },
    async run(world, a) {
      call = careful(world, task, given);
      await call.run(a);
    },
    again: (_, process, then) => call.again(process, then),
    check(_, jobs) {
      const [old] = marked(jobs, 'old');
      const error = old!.error === null ? '' : ` ${(JSON.parse(old!.error) as { code: string }).code}`;
      const answered = call.answer?.ok ? call.answer.value.outcome : null;
      check({ old: `${old!.state}${error}`, created: marked(jobs, 'new').length, answered });
    },
  };
}

const skipped: Parameters<typeof deduplicating>[1] = ({ old, created, answered }) => {
  demand(old === 'completed' && created === 0, `skip made ${created} jobs; the old one is ${old}`);
  demand(answered === null || answered === 'skipped', `skip was answered ${answered}`);
};

/** Replaced and replacing are one step: never one without the other. */
const replaced: Parameters<typeof deduplicating>[1] = ({ old, created, answered }) => {
  const done = old === 'failed REPLACED' && created === 1;
  const notDone = old === 'completed' && created === 0;
  demand(answered === null ? done || notDone : done, `replace made ${created} jobs; the old one is ${old}`);
};

const coalesced: Parameters<typeof deduplicating>[1] = ({ old, created, answered }) => {
  demand(old === 'completed' && created === 0, `coalesce made ${created} jobs; the old one is ${old}`);
  demand(answered === null || answered === 'coalesced', `coalesce was answered ${answered}`);
};

/** The job runs in another process: after the promise there must be a run that began later. */
function coalescingOntoRunning(): Operation {
  let call!: ReturnType<typeof careful>;
  let promisedAt: number | null = null;
  const options = { deduplication: 'coalesce', deduplicationKey: 'one' } as const;
  const note = (world: World): void => {
    if (call.answer?.ok) promisedAt ??= world.executions.length;
  };
  return {
    async setUp(world, a) {
      const other = await world.start('other');
      await put(world, a, 'old', 'hold', { ...options, id: freshId('old') });
      await other.work();
      demand(await world.until(() => world.executions.length === 1, 10_000), 'the old job does not run');
    },
    async run(world, a) {
      call = careful(world, task, options);
      await call.run(a);
      note(world);
    },
    async again(world, process, then) {
      await call.again(process, then);
      note(world);
    },
    check(world) {
      if (promisedAt !== null)
        demand(world.executions.length > promisedAt, 'no handler began after the event was taken');
    },
  };
}

/** All or none, at every moment that anybody can see. */
function enqueueingMany(ids: boolean): Operation {
  const list = [1, 2, 3].map((n) => ({
    type: 'job',
    input: task,
    ...(ids && { options: { id: freshId(`many-${n}`) } }),
  }));
  const call = repeatable('enqueueMany', (process: Process) => process.queue.enqueueMany(list));
  return {
    run: (_, a) => call.run(a),
    async again(world, process, then) {
      const stored = marked(await world.jobs(), 'new').length;
      demand(stored === 0 || stored === 3, `${stored} of 3 jobs are stored`);
      if (ids) await call.again(process);
      else if (then === 'retry' && call.answer?.ok === false) {
        const isUnknown = call.answer.code === 'RESULT_UNKNOWN';
        const tried = isUnknown ? (call.answer.error.details!.ids as string[]) : null;
        if (!tried) await call.again(process);
        else
          await process.surely('enqueueMany', (queue) =>
            queue.enqueueMany(list.map((job, index) => ({ ...job, options: { id: tried[index]! } }))),
          );
      }
      if (call.answer?.ok) for (const { id } of call.answer.value) world.promised.add(id);
    },
    check(_, jobs, then) {
      const made = marked(jobs, 'new').length;
      const mayBeMissing = then === 'restart' && !call.answer?.ok;
      demand(made === 3 || (made === 0 && mayBeMissing), `${made} jobs for an enqueueMany of 3`);
    },
  };
}

/** Calls of one turn travel together, and each is answered for itself. */
function enqueueingTogether(): Operation {
  let calls: ReturnType<typeof careful>[] = [];
  return {
    async run(world, a) {
      calls = [
        careful(world, { mark: 'first', how: 'return' }),
        careful(world, { mark: 'second', how: 'return' }, { id: freshId('second') }),
        careful(world, { mark: 'third', how: 'return' }),
      ];
      await Promise.all(calls.map((call) => call.run(a)));
    },
    async again(_, process, then) {
      for (const call of calls) await call.again(process, then);
    },
    check(_, jobs, then) {
      ['first', 'second', 'third'].forEach((mark, index) => {
        const made = marked(jobs, mark).length;
        const mayBeMissing = then === 'restart' && !calls[index]?.answer?.ok;
        demand(made === 1 || (made === 0 && mayBeMissing), `${made} jobs for the ${mark} enqueue`);
      });
    },
  };
}

function enqueueingDelayed(): Operation {
  const operation = enqueueing({ delay: '3s', ttl: '1h' });
  return {
    ...operation,
    check(world, jobs, then) {
      void operation.check!(world, jobs, then);
      for (const job of marked(jobs, 'new')) {
        demand(job.scheduledFor === job.createdAt + 3_000, 'its delay is another one');
        demand(job.startedAt! >= job.scheduledFor, 'it ran before it was due');
      }
    },
  };
}

export const producing: { readonly [name: string]: () => Operation } = {
  enqueue: () => enqueueing({}),
  'enqueue with an id': () => enqueueing({ id: freshId('mine') }),
  'enqueue with delay and ttl': () => enqueueingDelayed(),
  'enqueue with an exclusive key': () => enqueueing({ exclusiveKey: 'one' }),
  'enqueue three at once': () => enqueueingTogether(),
  'enqueue, skip': () => deduplicating('skip', skipped),
  'enqueue, skip, with an id': () => deduplicating('skip', skipped, { id: freshId('mine') }),
  'enqueue, replace': () => deduplicating('replace', replaced),
  'enqueue, replace, with an id': () => deduplicating('replace', replaced, { id: freshId('mine') }),
  'enqueue, coalesce': () => deduplicating('coalesce', coalesced),
  'enqueue, coalesce onto a running job': () => coalescingOntoRunning(),
  enqueueMany: () => enqueueingMany(false),
  'enqueueMany with ids': () => enqueueingMany(true),
};
