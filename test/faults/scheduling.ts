/** Schedules, one-shot work, and the limits and codecs that a queue may be opened with. */
import type { OpenOptions } from '../../src/index.js';
import { jobOf, type Task } from './handlers.js';
import { demand, freshId, marked, type Operation, put, repeatable } from './operation.js';
import { producing } from './producing.js';
import { running, working } from './running.js';
import type { Answer, Process, World } from './world.js';

const task: Task = { mark: 'tick', how: 'return' };
const everyMs = 10_000;

const setSchedule = (process: Process, name: string): Promise<void> =>
  process.queue.schedule(name, 'job', task, { every: everyMs, missed: 'all' });

/** Until there are three ticks; then the schedule goes, so that the world can come to rest. */
async function tickOn(world: World, process: Process, name: string): Promise<void> {
  const enough = async (): Promise<boolean> => marked(await world.jobs(), 'tick').length >= 3;
  demand(await world.until(enough, 120_000), 'it does not tick');
  await process.surely('unschedule', (queue) => queue.unschedule(name));
}

/** No tick is missing and none came twice. */
async function checkTicks(world: World): Promise<void> {
  const made = marked(await world.jobs(), 'tick');
  const ticks = made.map(({ metadata }) => Date.parse((JSON.parse(metadata!) as { tick: string }).tick)).sort();
  ticks.forEach((tick, index) => {
    if (index > 0)
      demand(tick - ticks[index - 1]! === everyMs, `from tick to tick it took ${tick - ticks[index - 1]!} ms`);
  });
  for (const job of made) demand(job.state === 'completed', `a tick ended ${job.state}`);
}

function scheduling(): Operation {
  const name = freshId('schedule');
  const call = repeatable('schedule', (process: Process) => setSchedule(process, name));
  return {
    run: (_, a) => call.run(a),
    async again(world, process) {
      await call.again(process);
      await tickOn(world, process, name);
    },
    check: (world) => checkTicks(world),
  };
}

function ticking(): Operation {
  const name = freshId('schedule');
  return {
    setUp: (_, a) => setSchedule(a, name),
    run: async (world) => void (await world.until(() => false, everyMs + 2_000)),
    again: (world, process) => tickOn(world, process, name),
    check: (world) => checkTicks(world),
  };
}

function unscheduling(): Operation {
  const name = freshId('schedule');
  let before = 0;
  const call = repeatable('unschedule', (process: Process) => process.queue.unschedule(name));
  return {
    setUp: (_, a) => setSchedule(a, name),
    run: (_, a) => call.run(a),
    async again(world, process) {
      await call.again(process);
      const left = await process.surely('schedules', (queue) => queue.schedules());
      demand(left.length === 0, 'the schedule is still there');
      before = (await world.jobs()).length;
      await world.until(() => false, 2 * everyMs);
    },
    check: (_, jobs) => demand(jobs.length === before, 'it ticked after it was removed'),
  };
}

function listing(): Operation {
  const name = freshId('schedule');
  let answer: Answer<unknown> | null = null;
  return {
    setUp: (_, a) => setSchedule(a, name),
    async run(_, a) {
      answer = await a.call('schedules', (queue) => queue.schedules());
    },
    async again(_, process) {
      if (answer?.ok === false) demand(answer.code === 'STORE_UNAVAILABLE', `it was refused with ${answer.code}`);
      const [only] = await process.surely('schedules', (queue) => queue.schedules());
      demand(only?.name === name, 'the schedule is not listed');
      await process.surely('unschedule', (queue) => queue.unschedule(name));
    },
  };
}

/** It ends by itself, or when its time is over. */
function untilIdle(): Operation {
  const send = (world: World, process: Process) =>
    process.call('runUntilIdle', (queue) =>
      queue.runUntilIdle([jobOf(world, process)], { for: '10s', lease: '60s', heartbeat: '10s', poll: '5s' }),
    );
  return {
    stops: true,
    async setUp(world, a) {
      for (const mark of ['first', 'second']) await put(world, a, mark, 'return');
    },
    async run(world, a) {
      const answer = await send(world, a);
      if (answer.ok && answer.value.left === 0)
        demand(answer.value.ran === world.executions.length, 'another number of handlers ran');
    },
    async again(world, process) {
      const answer = await send(world, process);
      demand(answer.ok && answer.value.left === 0, 'it is not idle');
    },
    check: (_, jobs) =>
      demand(
        jobs.every(({ state }) => state === 'completed'),
        'a job was not done',
      ),
  };
}

/** As many as may be pending, and never one more; who is refused knows that nothing was stored. */
function filling(): Operation {
  const ids = [freshId('first'), freshId('second')];
  const send = (process: Process, id: string) =>
    process.call('enqueue', (queue) => queue.enqueue('job', { mark: id, how: 'return' }, { id }));
  const answers = new Map<string, Answer<unknown>>();
  const few = async (world: World): Promise<void> =>
    demand((await world.jobs()).length <= 2, 'more jobs are pending than may be');
  return {
    options: { queues: { default: { maxPending: 2 } } },
    async setUp(world, a) {
      await put(world, a, 'old', 'return', { delay: '5s' });
    },
    async run(_, a) {
      for (const id of ids) answers.set(id, await send(a, id));
    },
    async again(world, process) {
      await few(world);
      for (const id of ids) if (!answers.get(id)?.ok) answers.set(id, await send(process, id));
      await few(world);
    },
    check(_, jobs) {
      const codes = ids.map((id) => {
        const answer = answers.get(id)!;
        demand(marked(jobs, id).length === (answer.ok ? 1 : 0), 'a refused job is stored, or a promised one is not');
        return answer.ok ? 'ok' : answer.code;
      });
      demand(codes.sort().join(' ') === 'QUEUE_FULL ok', `they were answered ${codes.join(' ')}`);
    },
  };
}

function limited(
  limits: NonNullable<OpenOptions['queues']>[string],
  check: (world: World) => Promise<void>,
): Operation {
  const operation = working(
    [
      ['talk', 'completed'],
      ['throw once', 'completed'],
    ],
    { check },
  );
  return { ...operation, options: { queues: { default: limits } } };
}

/** Of all jobs; a process that was killed runs nothing. */
async function oneAtATime({ executions }: World): Promise<void> {
  const ended = executions.map(({ endedAt, process }) => endedAt ?? process.killedAt ?? Number.POSITIVE_INFINITY);
  executions.forEach(({ beganAt }, index) => {
    if (index > 0) demand(beganAt >= ended[index - 1]!, 'two jobs ran at once');
  });
}

/** A job that was handed back unused is claimed again: each claim counts. */
async function oneInTwoSeconds(world: World): Promise<void> {
  const starts = (await world.events()).filter(({ name }) => name === 'claimed').map(({ at }) => at);
  starts.forEach((at, index) => {
    if (index > 0) demand(at - starts[index - 1]! >= 2_000, 'two jobs started within the window');
  });
}

/** Each text is stored backwards. */
const backwards = (text: string): string => [...text].reverse().join('');
const coded = (operation: Operation): Operation => ({
  ...operation,
  options: { codec: { encode: backwards, decode: backwards } },
});

export const scheduled: { readonly [name: string]: () => Operation } = {
  schedule: () => scheduling(),
  'a schedule ticks': () => ticking(),
  unschedule: () => unscheduling(),
  schedules: () => listing(),
  runUntilIdle: () => untilIdle(),
  'enqueue, with maxPending': () => filling(),
  'work, with a limit of one at a time': () => limited({ concurrency: 1 }, oneAtATime),
  'work, with a rate of one in two seconds': () => limited({ rate: { max: 1, per: '2s' } }, oneInTwoSeconds),
  'enqueue with an id, with a codec': () => coded(producing['enqueue with an id']!()),
  'work, with a codec': () => coded(running['work: several jobs']!()),
};
