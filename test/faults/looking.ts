/** Reading and watching. */
import type { JobEvent, Queue } from '../../src/index.js';
import { demand, freshId, type Operation, put } from './operation.js';
import type { Answer, Process, World } from './world.js';

/** A read that fails says so in one way, changes nothing, and is right the next time. */
function reading<T>(
  what: string,
  ask: (queue: Queue, id: string) => Promise<T>,
  right: (value: T) => boolean,
): Operation {
  const id = freshId('one');
  const send = (queue: Queue): Promise<T> => ask(queue, id);
  let answer: Answer<T> | null = null;
  return {
    async setUp(world, a) {
      await put(world, a, 'task', 'return', { id, delay: '30s' });
    },
    async run(_, a) {
      answer = await a.call(what, send);
    },
    async again(_, process) {
      if (answer?.ok === false) demand(answer.code === 'STORE_UNAVAILABLE', `${what} was refused with ${answer.code}`);
      demand(right(await process.surely(what, send)), `${what} gives something else`);
    },
  };
}

function health(): Operation {
  let answer: Answer<{ ok: boolean }> | null = null;
  return {
    async run(_, a) {
      answer = await a.call('health', (queue) => queue.health());
      demand(answer.ok, 'health never rejects');
      const hit = a.wire.hitAt === null ? null : a.wire.calls[a.wire.hitAt - 1];
      if (hit === 'check') demand(!answer.value.ok, 'health is good while the store does not answer');
    },
    async again(_, process) {
      const { ok } = await process.surely('health', (queue) => queue.health());
      demand(ok, 'health is still bad');
    },
  };
}

/** Another process does the job. */
async function otherWorks(world: World): Promise<string> {
  const other = await world.start('other');
  await other.work();
  return put(world, other, 'task', 'return', { delay: '200ms' });
}

function waiting(): Operation {
  let id = '';
  const send = (queue: Queue) => queue.wait(id, { timeout: '30s' });
  return {
    async setUp(world) {
      id = await otherWorks(world);
    },
    async run(_, a) {
      const answer = await a.call('wait', send);
      if (answer.ok) return demand(answer.value.state === 'completed', 'wait is wrong');
      demand(['STORE_UNAVAILABLE', 'WAIT_TIMEOUT'].includes(answer.code), `wait was refused with ${answer.code}`);
      demand(a.wire.calls.length > a.wire.hitAt!, 'wait gave up at the first failure');
    },
    async again(_, process) {
      demand((await process.surely('wait', send)).state === 'completed', 'wait is wrong');
    },
  };
}

/** A reader that breaks off goes on from its last cursor and has then seen everything once. */
function following(): Operation {
  let id = '';
  let other: Process;
  let cursor: string | undefined;
  const seen: string[] = [];
  const follow = (queue: Queue, after: string | undefined): Promise<void> =>
    (async () => {
      const signal = AbortSignal.any([]);
      for await (const event of queue.events({ ...(after !== undefined && { after }), signal })) {
        cursor = event.cursor;
        if (event.id !== id) continue;
        seen.push(event.name);
        if (event.name === 'completed') return;
      }
    })();
  return {
    async setUp(world, a) {
      id = await put(world, a, 'task', 'return', { delay: '1h' });
      other = await world.start('other');
      await other.work();
    },
    async run(world, a) {
      const reading = a.call('events', (queue) => follow(queue, undefined));
      // What it is to see happens when it has begun.
      await world.until(() => a.wire.calls.includes('readEvents') && a.wire.inStore === 0, 1_000);
      await other.surely('reschedule', (queue) => queue.reschedule(id, { delay: 0 }));
      const answer = await reading;
      if (answer.ok) return;
      demand(answer.code === 'STORE_UNAVAILABLE', 'events broke off in another way');
      // One that could not even begin says so.
      demand(a.wire.hitAt === 1 || a.wire.calls.length > a.wire.hitAt!, 'events gave up at the first failure');
    },
    async again(_, process) {
      if (cursor !== undefined && !seen.includes('completed'))
        await process.surely('events', (queue) => follow(queue, cursor));
    },
    check() {
      if (cursor === undefined) return; // it never began
      demand(seen.join(' ') === 'claimed completed', `the reader saw ${seen.join(' ')}`);
    },
  };
}

/** A listener that has begun to listen hears of everything once, however often reading fails in between. */
function listening(): Operation {
  const heard: JobEvent[] = [];
  const after = freshId('after');
  let id = '';
  let began = false;
  return {
    async run(world, a) {
      a.queue.on('completed', (event) => void heard.push(event));
      await world.until(() => a.wire.calls.length >= 2, 100);
      began = a.wire.hitAt !== 1;
      const other = await world.start('other');
      id = await put(world, other, 'task', 'return');
      await other.work();
      await world.until(() => heard.length > 0, 10_000);
    },
    async again(world, process, then) {
      // One that could not even begin does so when its first look has failed.
      if (then === 'retry') await world.until(() => heard.length > 0, 20_000);
      await put(world, process, 'after', 'return', { id: after });
      if (then === 'retry') await world.until(() => heard.some((event) => event.id === after), 30_000);
    },
    check(_, __, then) {
      const times = (about: string): number => heard.filter((event) => event.id === about).length;
      demand(times(id) <= 1, 'it was told twice');
      if (then === 'restart') return;
      demand(times(after) === 1, 'the listener is deaf');
      if (began) demand(times(id) === 1, 'the listener missed what happened while reading failed');
    },
  };
}

export const looking: { readonly [name: string]: () => Operation } = {
  get: () =>
    reading(
      'get',
      (queue, id) => queue.get(id),
      (job) => job?.state === 'pending',
    ),
  find: () =>
    reading(
      'find',
      (queue) => queue.find({ type: 'job' }),
      ({ items }) => items.length === 1,
    ),
  stats: () =>
    reading(
      'stats',
      (queue) => queue.stats(),
      ({ total }) => total.pending === 1,
    ),
  logs: () =>
    reading(
      'logs',
      (queue, id) => queue.logs(id),
      (lines) => lines.length === 0,
    ),
  health: () => health(),
  wait: () => waiting(),
  events: () => following(),
  on: () => listening(),
};
