/** What names, keys, subjects and ids may look like. Names are values in every store, never part of a statement. */
import { show } from './duration.js';
import { LastoutError } from './errors.js';
import { byteLength } from './json.js';

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const idPattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;
const keyBytesMax = 256;

/** The library's own jobs (schedules) live in this queue, and their types begin like this. */
export const systemQueue = 'lastout';
const systemTypes = 'lastout.';

export function checkName(value: unknown, what: string): string {
  if (typeof value !== 'string' || !namePattern.test(value)) {
    throw new LastoutError('INVALID_NAME', `${what} is ${show(value)}; it must match ${namePattern.source}.`);
  }
  return value;
}

/** The name of a queue that a caller's jobs may go to. */
export function checkQueue(value: unknown, what = 'queue'): string {
  return refuseKept(checkName(value, what), what, value === systemQueue);
}

/** The name of a job type that a caller may define. */
export function checkType(value: unknown, what: string): string {
  const name = checkName(value, what);
  return refuseKept(name, what, name.startsWith(systemTypes));
}

function refuseKept(name: string, what: string, kept: boolean): string {
  if (kept)
    throw new LastoutError('INVALID_NAME', `${what} is ${show(name)}, which is kept for the library; take another.`);
  return name;
}

export function checkId(value: unknown, what = 'The job id'): string {
  if (typeof value !== 'string' || !idPattern.test(value)) {
    throw new LastoutError('INVALID_ID', `${what} is ${show(value)}; it must match ${idPattern.source}.`);
  }
  return value;
}

export function checkKey(value: unknown, what: string): string {
  if (typeof value !== 'string' || value === '' || byteLength(value) > keyBytesMax || unstorable(value)) {
    throw new LastoutError(
      'INVALID_KEY',
      `${what} is ${show(value)}; give 1 to ${keyBytesMax} bytes of text without NUL.`,
    );
  }
  return value;
}

/** A subject is `kind:id`; the kind is a name, the id any text. */
export function checkSubject(value: unknown, what = 'subject'): string {
  const text = checkKey(value, what);
  const colon = text.indexOf(':');
  if (colon < 1 || colon === text.length - 1 || !namePattern.test(text.slice(0, colon))) {
    throw new LastoutError('INVALID_KEY', `${what} is ${show(value)}; write it as kind:id, such as "trip:42".`);
  }
  return text;
}

function unstorable(text: string): boolean {
  return text.includes('\0') || !text.isWellFormed();
}
