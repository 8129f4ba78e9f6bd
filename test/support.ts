// What the tests of the producer's side and of reading share: every rule is held on every store.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished } from 'vitest';
import type { StoreFactory } from '../src/core/store.js';
import { type Code, LastoutError, memoryStore, open, type OpenOptions, type Queue } from '../src/index.js';
import { sqliteStore } from '../src/stores/sqlite/index.js';
import { type FakeClock, fakeClock } from '../src/testing/index.js';

export { tapped } from './tapped.js';

/** Registers what is to be done at the end: of the test, or with `afterAll` of a group. */
type Afterwards = (undo: () => void | Promise<void>) => void;

export interface OnStore {
  readonly engine: 'memory' | 'sqlite';
  /** The URL of a new, empty store; its file goes after the test. */
  url(afterwards?: Afterwards): string;
  /** A new, empty store that several queues may share. */
  factory(): StoreFactory;
  /** A queue on a new store, by the real clock; closed after the test. */
  open(options?: OpenOptions): Promise<Queue>;
  /** A queue on a new store (or on the given one) whose clock stands still; closed after the test. */
  still(options?: OpenOptions, where?: string | StoreFactory): Promise<{ queue: Queue; clock: FakeClock }>;
}

/** Declares the same tests once per store. */
export function eachStore(declare: (on: OnStore) => void): void {
  describe('on memory', () => declare(onStore('memory', () => 'memory:', memoryStore)));
  describe('on sqlite', () =>
    declare(
      onStore(
        'sqlite',
        // What these tests check does not depend on the fsync, and they are many.
        (afterwards) => `sqlite:${join(temporaryFolder(afterwards), 'jobs.db')}?synchronous=normal`,
        () => sqliteStore({ file: join(temporaryFolder(), 'jobs.db') }, { synchronous: 'normal' }),
      ),
    ));
}

function onStore(engine: OnStore['engine'], url: OnStore['url'], factory: () => StoreFactory): OnStore {
  return {
    engine,
    url,
    factory,
    open: async (options) => closedAfterwards(await open(url(), options)),
    async still(options = {}, where = url()) {
      const clock = fakeClock();
      const queue = await open(where, { ...options, clock });
      onTestFinished(() => closeUnder(clock, queue));
      return { queue, clock };
    },
  };
}

/** A folder of its own, removed after the test. */
export function temporaryFolder(afterwards: Afterwards = onTestFinished): string {
  const folder = mkdtempSync(join(tmpdir(), 'lastout-'));
  afterwards(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
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
