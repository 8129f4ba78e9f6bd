/** Who waits for something to happen outlasts a store that is away for a while: it asks again, until its own end. */
import { LastoutError } from '../core/errors.js';
import type { System } from '../core/system.js';

/** So long the store may be away in one go. */
export const awayMaxMs = 30_000;
/** A first look has at least so long, however short the time of the one who waits. */
const lookMs = 1_000;

export interface Outlasting {
  readonly system: System;
  readonly awayMs: number;
  /** By the monotonic clock. */
  readonly until: number;
  readonly signal: AbortSignal | undefined;
  isOver(): boolean;
  /** Until the next try, so long at most. */
  pause(withinMs: number): Promise<void>;
}

/** Nothing is wrong with what was asked: the store could not be reached. */
export function isAway(error: unknown): boolean {
  return error instanceof LastoutError && error.code === 'STORE_UNAVAILABLE';
}

/** The answer; or the last refusal when the store was away for too long, when it is over, or when asking again is no use. */
export async function outlast<T>(ask: () => Promise<T>, how: Outlasting): Promise<T> {
  const { system, awayMs, until, signal } = how;
  const began = system.monotonic();
  const leftMs = (): number => Math.min(until, began + awayMs) - system.monotonic();
  for (let withinMs = Math.max(until - began, lookMs); ; withinMs = leftMs()) {
    try {
      return await answerWithin(system, withinMs, signal, ask());
    } catch (error) {
      if (!isAway(error) || how.isOver() || leftMs() <= 0) throw error;
      await how.pause(leftMs());
      if (how.isOver() || leftMs() <= 0) throw error;
    }
  }
}

/** Nobody waits beyond the own end for an answer that does not come. */
function answerWithin<T>(system: System, ms: number, signal: AbortSignal | undefined, answer: Promise<T>): Promise<T> {
  if (ms === Number.POSITIVE_INFINITY && !signal) return answer;
  return new Promise((resolve, reject) => {
    const giveUp = (): void => {
      over();
      reject(new LastoutError('STORE_UNAVAILABLE', 'The store has not answered.'));
    };
    const callOff = ms === Number.POSITIVE_INFINITY ? () => undefined : system.timer(ms, giveUp);
    const over = (): void => {
      callOff();
      signal?.removeEventListener('abort', giveUp);
    };
    signal?.addEventListener('abort', giveUp, { once: true });
    answer.then(resolve, reject).finally(over);
  });
}
