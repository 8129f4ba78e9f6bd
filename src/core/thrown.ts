/** The failure path cannot fail: whatever was thrown becomes an error that every store can keep. */
import { byteLength } from './json.js';
import type { JobError } from './job.js';

const messageBytesMax = 6 * 1024;
const stackBytesMax = 8 * 1024;

export function describeThrown(thrown: unknown): JobError {
  const message = attempt(() => messageOf(thrown)) ?? 'A value was thrown that cannot be read';
  const code = attempt(() => textProperty(thrown, 'code'));
  const stack = attempt(() => textProperty(thrown, 'stack'));
  return {
    message: storable(message, messageBytesMax),
    ...(code !== undefined && { code: storable(code, 64) }),
    ...(stack !== undefined && { stack: storable(stack, stackBytesMax) }),
  };
}

/** A reason that a handler gave by hand: the same bounds, no stack. */
export function describeReason(error: JobError): JobError {
  const { message, code } = describeThrown(error);
  return { message, ...(code !== undefined && { code }) };
}

function messageOf(thrown: unknown): string {
  if (typeof thrown === 'string') return thrown;
  if (thrown === null || typeof thrown !== 'object') return `Thrown: ${String(thrown)}`;
  const message = textProperty(thrown, 'message') ?? `Thrown: ${Object.prototype.toString.call(thrown)}`;
  const cause = attempt(() => textProperty((thrown as { cause?: unknown }).cause, 'message'));
  return cause === undefined ? message : `${message} (cause: ${cause.slice(0, 500)})`;
}

function textProperty(value: unknown, name: string): string | undefined {
  if (value === null || typeof value !== 'object') return undefined;
  const text: unknown = (value as Record<string, unknown>)[name];
  return typeof text === 'string' ? text : undefined;
}

function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** NUL and lone surrogates are made visible, and the rest is cut at the byte limit, counted as it is stored: as JSON. */
export function storable(text: string, bytesMax: number): string {
  // A string never has more characters than bytes, so this first cut is safe and keeps a 100 MB message cheap.
  const start = text.slice(0, bytesMax);
  let short = start.replaceAll('\0', '\\u0000').toWellFormed();
  if (start.length === text.length && bytesAsJson(short) <= bytesMax) return short;
  while (bytesAsJson(short) > bytesMax - 3) short = short.slice(0, Math.floor(short.length * 0.9)).toWellFormed();
  return `${short}…`;
}

/** Quotes, backslashes and control characters take two to six bytes each. */
function bytesAsJson(text: string): number {
  return byteLength(JSON.stringify(text)) - 2;
}
