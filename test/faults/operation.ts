/** One public operation as a cell plays it, and what callers do when they are told that something went wrong. */
import type { StoredJob } from '../../src/core/store.js';
import type { Enqueued, JobOptions, OpenOptions } from '../../src/index.js';
import type { How, Task } from './handlers.js';
import type { Answer, Process, World } from './world.js';

export type Then = 'retry' | 'restart';

/** Made anew for each cell: it keeps what was answered between its parts. */
export interface Operation {
  readonly options?: OpenOptions;
  /** The fault is armed before the queue is opened. */
  readonly opens?: boolean;
  /** Workers are told to stop: what they still hold may have to lapse. */
  readonly stops?: boolean;
  /** The queue is closed, so another one goes on. */
  readonly closes?: boolean;
  /** Nothing goes wrong here. */
  setUp?(world: World, a: Process): Promise<void>;
  /** The fault strikes at the k-th store call of this. */
  run(world: World, a: Process): Promise<void>;
  /** Nothing goes wrong any more: what the caller does now, on the same queue or after a restart. */
  again?(world: World, process: Process, then: Then): Promise<void>;
  /** At rest. */
  check?(world: World, jobs: readonly StoredJob[], then: Then): void | Promise<void>;
}

export async function put(
  world: World,
  process: Process,
  mark: string,
  how: How,
  options: JobOptions = {},
): Promise<string> {
  const { id } = await process.surely('enqueue', (queue) => queue.enqueue('job', { mark, how }, options));
  world.promised.add(id);
  return id;
}

let given = 0;

/** An id that a caller gives: its own in every cell. */
export function freshId(name: string): string {
  given += 1;
  return `${name}-${given}`;
}

export const taskOf = (job: StoredJob): Task => JSON.parse(job.input) as Task;
export const marked = (jobs: readonly StoredJob[], mark: string): readonly StoredJob[] =>
  jobs.filter((job) => taskOf(job).mark === mark);

/** An act that may be repeated without harm: whoever is not told that it is done does it again. */
export function repeatable<T>(what: string, send: (process: Process) => Promise<T>) {
  let answer: Answer<T> | null = null;
  return {
    get answer() {
      return answer;
    },
    async run(process: Process): Promise<void> {
      answer = await process.call(what, () => send(process));
    },
    async again(process: Process): Promise<T> {
      if (answer?.ok) return answer.value;
      const value = await process.surely(what, () => send(process));
      answer = { ok: true, value };
      return value;
    },
  };
}

/**
 * An enqueue by a careful caller. With an id it is simply sent again. Without one it is sent again after a plain
 * refusal; where the outcome is unknown the caller looks, and sends it again under the id that was tried.
 */
export function careful(world: World, task: Task, options: JobOptions = {}) {
  let answer: Answer<Enqueued> | null = null;
  const send = (process: Process, given: JobOptions): Promise<Answer<Enqueued>> =>
    process.call('enqueue', (queue) => queue.enqueue('job', task, given));
  function promise(): void {
    if (!answer?.ok) return;
    world.promised.add(answer.value.id);
  }
  return {
    get answer() {
      return answer;
    },
    async run(process: Process): Promise<void> {
      answer = await send(process, options);
      promise();
    },
    /** After a restart the caller is gone too, unless it chose the id. */
    async again(process: Process, then: Then): Promise<void> {
      if (options.id !== undefined) answer = await send(process, options);
      else if (then === 'restart' || !answer || answer.ok) return;
      else if (answer.code !== 'RESULT_UNKNOWN') answer = await send(process, options);
      else answer = await lookFirst(process, (answer.error.details!.ids as string[])[0]!);
      if (!answer.ok) throw new Error(`enqueue was refused again: ${answer.error.message}`);
      promise();
    },
  };

  async function lookFirst(process: Process, id: string): Promise<Answer<Enqueued>> {
    const found = await process.surely('get', (queue) => queue.get(id));
    return found ? { ok: true, value: { id, outcome: 'created' } } : send(process, { ...options, id });
  }
}

export function demand(holds: unknown, message: string): asserts holds {
  if (!holds) throw new Error(message);
}
