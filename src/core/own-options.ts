/** The options of a caller: read once, own properties only. One that does not exist is refused, with the nearest that does. */
import { show } from './duration.js';
import { type Code, LastoutError } from './errors.js';
import { reading } from './reading.js';
import { hasSecret } from './masked.js';

/** Words of other queues, answered with ours. */
const foreignWords: { readonly [word: string]: string } = {
  removeOnComplete: 'keep: { completed: … }',
  removeOnFail: 'keep: { failed: … }',
  jobId: 'id',
  singletonKey: 'deduplicationKey (with deduplication)',
  jobKey: 'deduplicationKey (with deduplication)',
  repeat: 'queue.schedule(…)',
  retries: 'attempts (of a job or its type)',
  maxRetries: 'attempts (of a job or its type)',
  maxAttempts: 'attempts (of a job or its type)',
  retryLimit: 'attempts (of a job or its type)',
  retryDelay: 'backoff (of a job or its type)',
  retryBackoff: 'backoff (of a job or its type)',
  startAfter: 'delay or runAt',
  expireIn: 'timeout',
  lockDuration: 'lease',
  visibilityTimeout: 'lease',
  connection: 'the URL or store that open takes first',
  prefix: 'namespace',
  limiter: 'rate: { max, per } in the queues of open',
  data: 'input',
};

/** What is inherited was not given: who can write to a prototype must not decide what a call does. */
export type Own<T> = { [K in keyof T]?: T[K] };

/** A copy. Undefined is no options; null is refused. */
export function ownOptions<T extends object>(
  options: T | undefined,
  allowed: readonly string[],
  where: string,
): Own<T> {
  if (options === undefined) return {};
  return reading(where, 'UNKNOWN_OPTION', () => {
    if (options === null || typeof options !== 'object' || Array.isArray(options))
      throw new LastoutError(
        'UNKNOWN_OPTION',
        `${where}: got ${typeof options === 'string' ? 'a text' : show(options)}; give an object.`,
      );
    for (const name of Object.keys(options)) if (!allowed.includes(name)) throw unknown(name, allowed, where);
    return { ...options };
  });
}

/** Nothing but true and false: a text 'false', or a 0, would mean one thing to one store and another to the next. */
export function readFlag(value: unknown, what: string, code: Code = 'UNKNOWN_OPTION'): boolean {
  if (value === undefined || typeof value === 'boolean') return value ?? false;
  throw new LastoutError(code, `${what} is ${show(value)}; give true or false, or leave it out.`);
}

function unknown(name: string, allowed: readonly string[], where: string): LastoutError {
  const foreign = Object.hasOwn(foreignWords, name) ? foreignWords[name] : undefined;
  const near = foreign ?? nearest(name, allowed);
  const hint = near ? ` Did you mean ${near}?` : ` Known are ${allowed.join(', ')}.`;
  return new LastoutError('UNKNOWN_OPTION', `${where}: there is no ${show(name)}.${hint}`, {
    option: hasSecret(name) ? '' : name,
  });
}

/** One slip for every four letters: more would make another word of it. */
function nearest(name: string, allowed: readonly string[]): string | undefined {
  let best: string | undefined;
  let bestSlips = (name.length < 3 ? 0 : Math.max(1, Math.floor(name.length / 4))) + 1;
  for (const candidate of allowed) {
    const slips = slipsBetween(name.toLowerCase(), candidate.toLowerCase());
    if (slips < bestSlips) [best, bestSlips] = [candidate, slips];
  }
  return best;
}

/** Letters that are wrong, missing, too many, or swapped with the next one. */
function slipsBetween(a: string, b: string): number {
  if (a.length > 64 || b.length > 64) return Number.POSITIVE_INFINITY;
  let before: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwapped ? before[j - 2]! + 1 : Number.POSITIVE_INFINITY;
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1, swapped));
    }
    [before, row] = [row, next];
  }
  return row[b.length]!;
}
