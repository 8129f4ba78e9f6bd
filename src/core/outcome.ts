/** What a handler may return instead of a value. */
import { type Duration, toMs } from './duration.js';
import type { JobError } from './job.js';
import { isOf } from './reading.js';

export type Outcome = { readonly outcome: 'snooze' | 'fail' | 'cancel' };

/** Later, without using an attempt. */
export function snooze(delay: Duration, reason?: string): Outcome {
  return new Verdict('snooze', { inMs: toMs(delay, 'The delay of snooze'), ...(reason !== undefined && { reason }) });
}

/** Failed now, whatever attempts are left. */
export function fail(reason: string | JobError): Outcome {
  return new Verdict('fail', { error: typeof reason === 'string' ? { message: reason } : reason });
}

/** Cancelled by its own handler. */
export function cancel(reason: string): Outcome {
  return new Verdict('cancel', { error: { message: reason, code: 'CANCELLED' } });
}

/** A class, so that a result that merely looks like an outcome stays a result. */
export class Verdict implements Outcome {
  constructor(
    readonly outcome: Outcome['outcome'],
    readonly details: { readonly inMs?: number; readonly reason?: string; readonly error?: JobError },
  ) {}
}

export function isVerdict(value: unknown): value is Verdict {
  return isOf(value, Verdict);
}
