/** Durations come in as milliseconds or as '30s'; inside, everything is milliseconds. */
import { type Code, LastoutError } from './errors.js';

export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd' | 'w'}`;

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;
const pattern = /^(\d+(?:\.\d+)?)(ms|s|m|h|d|w)$/;

export const yearMs = 365 * unitMs.d;
const longestMs = 10 * yearMs;

/** Milliseconds of a duration; refuses what is not one, is negative, or is longer than `max` (10 years). */
export function toMs(value: unknown, what: string, code: Code = 'INVALID_DURATION', max = longestMs): number {
  const ms = typeof value === 'string' ? parse(value) : value;
  if (typeof ms !== 'number' || !Number.isFinite(ms) || ms < 0 || ms > max) {
    throw new LastoutError(
      code,
      `${what} is ${show(value)}; give milliseconds or a text such as '500ms', '30s', '5m', '2h', '7d', between 0 and ${max / unitMs.d} days.`,
    );
  }
  return Math.round(ms);
}

function parse(text: string): number {
  const match = pattern.exec(text);
  return match ? Number(match[1]) * unitMs[match[2] as keyof typeof unitMs] : Number.NaN;
}

/** A value as it may stand in an error message: short and on one line. */
export function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
  if (value === null || ['number', 'boolean', 'undefined', 'bigint'].includes(typeof value)) return String(value);
  return Array.isArray(value) ? 'an array' : typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}
