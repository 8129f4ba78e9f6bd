/** What a caller gave may be a proxy, or have getters. What they throw is told as the fault of that value. */
import { type Code, LastoutError } from './errors.js';

export function reading<T>(what: string, code: Code, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (isOf(error, LastoutError)) throw error;
    throw new LastoutError(code, `${what} cannot be read: a getter or a proxy in it threw.`, undefined, error);
  }
}

/** A proxy may refuse even to be asked. */
export function isOf<T>(value: unknown, type: abstract new (...args: never[]) => T): value is T {
  try {
    return value instanceof type;
  } catch {
    return false;
  }
}

/** Milliseconds; NaN: it is no valid Date. */
export function timeOf(value: unknown): number {
  try {
    return value instanceof Date ? Date.prototype.getTime.call(value) : Number.NaN;
  } catch {
    return Number.NaN;
  }
}

/** A copy of a list, a hole is undefined in it; null: it is no list. Its length is looked at before it is copied. */
export function listOf(value: unknown, max: number, what: string, code: Code): readonly unknown[] | null {
  return reading(what, code, () => {
    if (!Array.isArray(value)) return null;
    const { length } = value;
    if (!(length <= max)) throw new LastoutError(code, `${what} has ${length} entries; at most ${max} are taken.`);
    return Array.from({ length }, (_, index) => value[index] as unknown);
  });
}

/** Any AbortSignal, also one of another realm. */
export function checkSignal(signal: AbortSignal | undefined, where: string): AbortSignal | undefined {
  if (signal === undefined) return undefined;
  const isSignal = reading(`${where}: signal`, 'UNKNOWN_OPTION', () => {
    const { aborted, addEventListener } = (signal ?? {}) as Partial<AbortSignal>;
    return typeof aborted === 'boolean' && typeof addEventListener === 'function';
  });
  if (isSignal) return signal;
  throw new LastoutError('UNKNOWN_OPTION', `${where}: signal is no AbortSignal.`);
}
