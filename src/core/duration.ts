/** Durations come in as milliseconds or as '30s'; inside, everything is milliseconds. */
import { type Code, LastoutError } from './errors.js';
import { hasSecret } from './masked.js';

export type Duration = number | `${number}${'ms' | 's' | 'm' | 'h' | 'd' | 'w'}`;

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;
const pattern = /^(\d+(?:\.\d+)?)(ms|s|m|h|d|w)$/;

export const yearMs = 365 * unitMs.d;
const longestMs = 10 * yearMs;

const examples = ['500ms', '5s', '30s', '5m', '2h', '7d'];

/** Milliseconds of a duration; refuses what is not one, is shorter than `min` (0) or longer than `max` (10 years). */
export function toMs(
  value: unknown,
  what: string,
  code: Code = 'INVALID_DURATION',
  { min = 0, max = longestMs }: { readonly min?: number; readonly max?: number } = {},
): number {
  const ms = typeof value === 'string' ? parse(value) : value;
  const isWithin = (n: number): boolean => n >= 0 && Math.round(n) >= min && n <= max;
  if (typeof ms === 'number' && isWithin(ms)) return Math.round(ms);
  const such = examples.filter((text) => isWithin(parse(text))).map((text) => `'${text}'`);
  const advice = `give milliseconds or a text such as ${such.join(', ')}, from ${inUnits(min)} to ${inUnits(max)}`;
  throw new LastoutError(code, `${what} is ${show(value)}; ${advice}.`);
}

/** In the largest unit that leaves no rest, up to days. */
export function inUnits(ms: number): string {
  const unit = (['d', 'h', 'm', 's'] as const).find((one) => ms % unitMs[one] === 0) ?? 'ms';
  return ms === 0 ? '0' : `${ms / unitMs[unit]}${unit}`;
}

function parse(text: string): number {
  const match = pattern.exec(text);
  return match ? Number(match[1]) * unitMs[match[2] as keyof typeof unitMs] : Number.NaN;
}

/** A value as it may stand in an error message: short, on one line, and without a password: it may have been meant for another place. */
export function show(value: unknown): string {
  if (typeof value === 'string') {
    if (hasSecret(value)) return 'a text with a password in it';
    return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value);
  }
  if (value === null || ['number', 'boolean', 'undefined', 'bigint'].includes(typeof value)) return String(value);
  return typeof value !== 'object' ? `a ${typeof value}` : isList(value) ? 'an array' : 'an object';
}

/** A revoked proxy cannot be asked. */
function isList(value: object): boolean {
  try {
    return Array.isArray(value);
  } catch {
    return false;
  }
}
