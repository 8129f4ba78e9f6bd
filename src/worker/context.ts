/** What a handler is given. Nothing of it is made before the handler asks: most ask for little. */
import type { Context } from '../core/definition.js';
import type { Enqueued, Job, JobOptions, Progress } from '../core/job.js';
import { toStoredText } from '../core/json.js';
import { isOf } from '../core/reading.js';
import { describeThrown, storable } from '../core/thrown.js';
import { readProgress } from './progress.js';
import type { Run } from './run.js';

const lineBytesMax = 8 * 1024;

/**
 * A proxy, so that a handler may take it apart (`{ input }`) or copy it (`{ ...context }`) as an object with these
 * properties of its own: making one with five getters takes longer than all else that is done with a short job.
 */
export function contextOf(run: Run): Context<never> {
  return new Proxy(new LazyContext(run), asOwnProperties);
}

class LazyContext implements Context<never> {
  readonly #run: Run;

  constructor(run: Run) {
    this.#run = run;
  }
  get input(): never {
    return this.#run.input as never;
  }
  get job(): Job<never> {
    return this.#run.job as Job<never>;
  }
  get signal(): AbortSignal {
    return this.#run.signal;
  }
  get progress(): Context<never>['progress'] {
    return (value: number | Progress) => this.#run.note({ progress: readProgress(value) });
  }
  get log(): Context<never>['log'] {
    return (message: string, fields?: object) =>
      this.#run.note({ line: () => ({ message: messageText(message), fields: fieldsText(fields) }) });
  }
  get artifact(): Context<never>['artifact'] {
    return { put: (name, body, options) => this.#run.belongings.put(name, body, options) };
  }
  get tempDir(): Context<never>['tempDir'] {
    return () => this.#run.belongings.tempDir();
  }
  get lease(): Context<never>['lease'] {
    return (resource, spec, options) => this.#run.leases.take(resource, spec, options);
  }
  get enqueue(): Context<never>['enqueue'] {
    const enqueue = (type: unknown, input: unknown, options?: JobOptions): Promise<Enqueued> =>
      this.#run.enqueue(type, input, options);
    return enqueue;
  }
  get queue(): Context<never>['queue'] {
    return this.#run.queue;
  }
}

const names: readonly string[] = [
  'input', 'job', 'signal', 'progress', 'log', 'artifact', 'tempDir', 'lease', 'enqueue', 'queue',
]; // biome-ignore format: one list

const asOwnProperties: ProxyHandler<LazyContext> = {
  get: (context, name) => context[name as 'input'],
  ownKeys: (context) => [...names, ...Reflect.ownKeys(context)],
  getOwnPropertyDescriptor: (context, name) =>
    names.includes(name as string)
      ? { value: context[name as 'input'], enumerable: true, configurable: true }
      : Reflect.getOwnPropertyDescriptor(context, name),
};

/** Who gives something else than a text gets what is short to tell of it: putting it into words may take for ever, or throw. */
function messageText(message: unknown): string {
  if (typeof message === 'string') return storable(message, lineBytesMax);
  if (typeof message === 'object' && message !== null)
    return isOf(message, Error) ? describeThrown(message).message : fieldsText(message)!;
  return typeof message === 'bigint' || typeof message === 'function' ? `a ${typeof message}` : String(message);
}

/** A log line never fails its job: what cannot be stored is said to be so. */
function fieldsText(fields: object | undefined): string | null {
  if (fields === undefined) return null;
  try {
    return toStoredText(fields, 'fields', lineBytesMax);
  } catch (refused) {
    return JSON.stringify({ unstorable: describeThrown(refused).message });
  }
}
