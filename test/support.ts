// What the tests of the producer's side and of reading share: every rule is held on every store.
import { describe, expect, onTestFinished } from 'vitest';
import type { StoreFactory } from '../src/core/store.js';
import { type Code, type Health, LastoutError, open, type OpenOptions, type Queue } from '../src/index.js';
import { type FakeClock, fakeClock } from '../src/testing/index.js';

import { type Afterwards, emptyStore, engines, type EngineName, newStore } from './engines.js';

export { temporaryFolder } from './engines.js';
export { tapped } from './tapped.js';

export interface OnStore {
  readonly engine: EngineName;
  /** The URL of a new, empty store, which goes after the test. */
  url(afterwards?: Afterwards): Promise<string>;
  /** A new, empty store that several queues may share. */
  factory(): StoreFactory;
  /** A queue on a new store, by the real clock; closed after the test. */
  open(options?: OpenOptions): Promise<Queue>;
  /** A queue on a new store (or on the given one) whose clock stands still; closed after the test. */
  still(options?: OpenOptions, where?: string | StoreFactory): Promise<{ queue: Queue; clock: FakeClock }>;
}

/** Declares the same tests once per store. */
export function eachStore(declare: (on: OnStore) => void): void {
  for (const engine of engines) describe(`on ${engine}`, () => declare(onStore(engine)));
}

function onStore(engine: EngineName): OnStore {
  const url: OnStore['url'] = async (afterwards) => (await emptyStore[engine](afterwards)).url;
  return {
    engine,
    url,
    factory: () => newStore(engine),
    open: async (options) => closedAfterwards(await open(await url(), options)),
    async still(options = {}, where) {
      const clock = fakeClock();
      const queue = await open(where ?? (await url()), { ...options, clock });
      onTestFinished(() => closeUnder(clock, queue));
      // Its first cleanup is over: on PostgreSQL a step that is under way holds the events of others back for a moment.
      await clock.settle();
      return { queue, clock };
    },
  };
}

export function closedAfterwards(queue: Queue, afterwards: Afterwards = onTestFinished): Queue {
  afterwards(async () => void (await queue.close({ grace: 0 })));
  return queue;
}

/** Closing waits by the clock, which nobody else moves any more. */
export async function closeUnder(clock: FakeClock, queue: Queue): Promise<void> {
  let closed = false;
  const closing = queue.close({ grace: 0 }).finally(() => {
    closed = true;
  });
  while (!closed) await clock.advance(100);
  await closing;
}

/** The PostgreSQL of most tests is quick because it does not sync, and rightly says so: that is not what they look at. */
export async function healthOf(queue: Queue): Promise<Health> {
  const { warnings, ...rest } = await queue.health();
  return { ...rest, warnings: warnings.filter(({ code }) => code !== 'FSYNC_OFF') };
}

export interface LoggedLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  readonly fields: object | undefined;
}

export function recordingLogger() {
  const lines: LoggedLine[] = [];
  const at = (level: LoggedLine['level']) => (message: string, fields?: object) =>
    void lines.push({ level, message, fields });
  return { lines, logger: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') } };
}

/** The refusal of a call, whether it is thrown or rejected; a call that is accepted fails the test. */
export async function refusalOf(call: () => unknown): Promise<LastoutError> {
  const refusal: unknown = await Promise.resolve()
    .then(call)
    .then(
      () => expect.unreachable('the call was accepted'),
      (error: unknown) => error,
    );
  expect(refusal).toBeInstanceOf(LastoutError);
  return refusal as LastoutError;
}

export async function expectCode(code: Code, call: () => unknown): Promise<LastoutError> {
  const refusal = await refusalOf(call);
  expect(`${refusal.code}: ${refusal.message}`).toMatch(new RegExp(`^${code}: `));
  return refusal;
}

/** A promise and its resolver: how a test and a handler meet without sleeping. */
export function gate<T = void>(): { readonly opened: Promise<T>; open(value: T): void } {
  let release!: (value: T) => void;
  const opened = new Promise<T>((resolve) => {
    release = resolve;
  });
  return { opened, open: (value) => release(value) };
}
