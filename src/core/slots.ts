/// <reference lib="esnext.disposable" preserve="true" />
/** Bounded slots with a bounded waiting line: the backpressure helper. */
import { type Duration, show, toMs } from './duration.js';
import { BackpressureError, LastoutError } from './errors.js';
import { checkSignal } from './reading.js';
import type { System } from './system.js';
import { ownOptions } from './own-options.js';

export interface Slots extends Disposable {
  readonly running: number;
  readonly waiting: number;
  /** Resolves with the function that gives the slot back; calling it again does nothing. */
  acquire(signal?: AbortSignal): Promise<() => void>;
}

export interface SlotOptions {
  maxConcurrent: number;
  maxWaiting: number;
  /** Longest wait in line. */
  timeout?: Duration;
}

interface Waiter {
  grant(): void;
  refuse(error: unknown): void;
}

export function slotsOn(system: System, options: SlotOptions): Slots {
  const own = ownOptions(options, ['maxConcurrent', 'maxWaiting', 'timeout'], 'The options of createSlots');
  const maxConcurrent = checkCount(own.maxConcurrent, 'maxConcurrent', 1);
  const maxWaiting = checkCount(own.maxWaiting, 'maxWaiting', 0);
  const timeoutMs = own.timeout === undefined ? null : toMs(own.timeout, 'timeout');
  const line: Waiter[] = [];
  let running = 0;
  let closed = false;

  function grantOne(): () => void {
    running += 1;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      running -= 1;
      if (!closed) line.shift()?.grant();
    };
  }
  function waitInLine(signal: AbortSignal | undefined): Promise<() => void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        const at = line.indexOf(waiter);
        if (at >= 0) line.splice(at, 1);
        callOff?.();
        signal?.removeEventListener('abort', aborted);
      };
      const aborted = (): void => waiter.refuse(signal?.reason);
      const waiter: Waiter = {
        grant() {
          leave();
          resolve(grantOne());
        },
        refuse(error) {
          leave();
          reject(error);
        },
      };
      const late = (): void =>
        waiter.refuse(new LastoutError('TIMEOUT', `No slot became free within ${timeoutMs} ms.`));
      const callOff = timeoutMs === null ? null : system.timer(timeoutMs, late, 'hold');
      signal?.addEventListener('abort', aborted, { once: true });
      line.push(waiter);
    });
  }

  return {
    get running() {
      return running;
    },
    get waiting() {
      return line.length;
    },
    async acquire(signal) {
      checkSignal(signal, 'acquire');
      if (closed) throw destroyed();
      signal?.throwIfAborted();
      if (running < maxConcurrent && line.length === 0) return grantOne();
      if (line.length >= maxWaiting) throw new BackpressureError();
      return waitInLine(signal);
    },
    [Symbol.dispose]() {
      closed = true;
      for (const waiter of [...line]) waiter.refuse(destroyed());
    },
  };
}

function destroyed(): LastoutError {
  return new LastoutError('SLOTS_CLOSED', 'Queue destroyed');
}

function checkCount(value: unknown, name: string, min: number): number {
  if (!Number.isSafeInteger(value) || (value as number) < min)
    throw new LastoutError('INVALID_LIMIT', `${name} is ${show(value)}; give a whole number from ${min}.`);
  return value as number;
}
