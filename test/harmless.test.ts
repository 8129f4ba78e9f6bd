/** Nothing that code of the user's throws or rejects ends the process: each way in a process of its own. */
import { spawn } from 'node:child_process';
import { getEventListeners } from 'node:events';
import { describe, expect, it, onTestFinished } from 'vitest';
import { harmlessLogger, harmlessSignal } from '../src/core/harmless.js';
import { defineJob } from '../src/index.js';
import { compilePrograms } from './programs.js';
import { closedAfterwards, eachStore, expectCode, recordingLogger } from './support.js';

const program = compilePrograms().harmless;

async function outcome(mode: string, url: string) {
  const child = spawn(process.execPath, [program, mode, url], { stdio: ['ignore', 'pipe', 'pipe'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  let [said, errors] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  const code = await new Promise((resolve) => child.once('close', resolve));
  return { code, said, raised: errors.includes('at boom') };
}

describe('a process outlives', () => {
  it.each([
    ['a logger that throws', 'logger'],
    ['a logger that rejects', 'asyncLogger'],
    ['listeners of events that throw and reject, and a logger that does so too', 'listener'],
    ['notifiers of alerts that throw and reject', 'notifier', 'firing\n'],
    ['listeners of the signal of a handler', 'abort'],
    ['listeners of the signal of a resource', 'resource'],
    ['listeners of the signal of a check of subjects', 'subject'],
    ['a clock that throws in the middle of its work', 'clock'],
    ['a clock that answers with a promise', 'openClock'],
    ['a clock that answers with a promise in the middle of its work', 'asyncClock'],
    ['a codec that encodes to a promise', 'codec'],
    ['a codec that decodes to a promise', 'decode'],
    ['a blob store whose lists are promises', 'blobs'],
    ['functions of a definition that answer with a promise', 'derived'],
    ['a backoff that answers with a promise', 'backoff'],
  ])('%s', async (_, mode, before = '') => {
    expect(await outcome(mode, 'memory:')).toEqual({ code: 0, said: `${before}lived\n`, raised: false });
  });
});

describe('a logger that is told', () => {
  it('gets one argument where there are no fields: console prints every one that it gets', () => {
    const calls: unknown[][] = [];
    const hear = (...args: unknown[]): void => void calls.push(args);
    const logger = harmlessLogger({ debug: hear, info: hear, warn: hear, error: hear });
    logger.info('No cleanup needed');
    logger.warn('Job is tried again', { id: 'a' });
    expect(calls).toEqual([['No cleanup needed'], ['Job is tried again', { id: 'a' }]]);
  });
});

describe('a signal that cannot be hurt', () => {
  const told: unknown[] = [];
  const make = () => {
    const controller = new AbortController();
    return { controller, signal: harmlessSignal(controller.signal, (error) => told.push(error)) };
  };

  it('is still an AbortSignal: fetch, any and listeners work as with any other', async () => {
    const { controller, signal } = make();
    expect(signal).toBeInstanceOf(AbortSignal);
    const joined = AbortSignal.any([signal]);
    const fetched = fetch('http://127.0.0.1:1/', { signal }).catch((error: unknown) => error);
    const heard: unknown[] = [];
    const listener = function (this: unknown, event: Event) {
      heard.push([this, event.type]);
    };
    signal.addEventListener('abort', listener);
    signal.addEventListener('abort', listener);
    const removed = (): void => void heard.push('removed');
    signal.addEventListener('abort', removed);
    signal.removeEventListener('abort', removed);
    signal.onabort = () => void heard.push('onabort');
    signal.onabort = listener;
    expect(signal.onabort).toBe(listener);
    signal.onabort = null;
    controller.abort(new Error('why'));
    expect(heard).toEqual([[signal, 'abort']]);
    expect(joined.reason).toBe(signal.reason);
    expect(await fetched).toBe(signal.reason);
    expect(told).toEqual([]);
  });

  it('tells what its listeners throw and reject, and calls the others', async () => {
    const { controller, signal } = make();
    let heard = 0;
    signal.addEventListener('abort', () => {
      throw new Error('thrown');
    });
    signal.addEventListener('abort', () => Promise.reject(new Error('rejected')) as never);
    signal.addEventListener('abort', () => void (heard += 1));
    controller.abort();
    await Promise.resolve();
    await Promise.resolve();
    expect(heard).toBe(1);
    expect(told.map(String).sort()).toEqual(['Error: rejected', 'Error: thrown']);
  });
});

describe('callbacks of the user', () => {
  eachStore((on) => {
    it('an abort listener that throws is told with its job, and the job ends as it would', async () => {
      const { lines, logger } = recordingLogger();
      const { queue, clock } = await on.still({ logger });
      const type = defineJob<null>('deaf', {
        timeout: '1s',
        attempts: 1,
        run: ({ signal }) =>
          new Promise((_, reject) => {
            signal.addEventListener('abort', () => {
              reject(signal.reason as Error);
              throw new Error('boom');
            });
          }),
      });
      await queue.work([type]);
      const { id } = await queue.enqueue(type, null);
      await clock.settle();
      await clock.advance(1_000);
      await clock.settle();
      expect(await queue.get(id)).toMatchObject({ state: 'failed', error: { code: 'TIMEOUT' } });
      expect(lines.filter(({ message }) => message === 'An abort listener threw')).toEqual([
        { level: 'error', message: 'An abort listener threw', fields: { id, type: 'deaf', error: 'boom' } },
      ]);
    });

    it('events: return() while an event is waited for ends at once and frees what listens', async () => {
      const queue = await on.open();
      const stop = new AbortController();
      const events = queue.events({ signal: stop.signal })[Symbol.asyncIterator]();
      const waiting = events.next();
      // The first event comes through, so that the next one is truly waited for.
      await queue.enqueue('any', null);
      await waiting;
      const next = events.next();
      expect(getEventListeners(stop.signal, 'abort')).toHaveLength(1);
      await events.return!();
      expect(await next).toEqual({ done: true, value: undefined });
      expect(getEventListeners(stop.signal, 'abort')).toHaveLength(0);
    });
  });

  it('a clock that shows nothing is refused', async () => {
    const { open } = await import('../src/index.js');
    const opened = (now: () => unknown) =>
      expectCode('UNKNOWN_OPTION', () => open('memory:', { clock: { now } as never }));
    await opened(() => new Date(Number.NaN));
    await opened(() => 5);
    await opened(() => {
      throw new Error('boom');
    });
  });

  it('a clock that cannot be read later stands still, which is told once', async () => {
    const { open } = await import('../src/index.js');
    const { lines, logger } = recordingLogger();
    let broken = false;
    const at = new Date('2030-01-01T00:00:00Z');
    const now = (): Date => {
      if (broken) throw new Error('boom');
      return at;
    };
    const queue = closedAfterwards(await open('memory:', { clock: { now }, logger }));
    await queue.sweep();
    broken = true;
    const { id } = await queue.enqueue('any', null);
    expect((await queue.get(id))!.createdAt).toEqual(at);
    expect(lines.filter(({ message }) => message.startsWith('The clock'))).toHaveLength(1);
  });
});
