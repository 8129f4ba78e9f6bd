/**
 * Asks whether subjects are there, by the checks that were defined. Whatever goes wrong is `unknown`: a lookup that fails,
 * comes late or answers something else has told nothing.
 */
import { show, toMs } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { harmlessSignal } from '../core/harmless.js';
import type { Logger } from '../core/job.js';
import { checkName } from '../core/names.js';
import { type AskSubject, idIn, kindOf, type Presence, type SubjectRule } from '../core/subject.js';
import type { System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import { ownOptions } from '../core/own-options.js';
import { reading } from '../core/reading.js';

/** Ids in one call of a check. */
export const idsMax = 100;
/** A check that has not answered by then has told nothing. */
const checkMs = 10_000;

/** A rule as it was read. */
export interface Rule {
  readonly kind: string;
  readonly check: SubjectRule['check'];
  readonly everyMs: number;
  readonly confirm: number;
  readonly brake: { readonly share: number; readonly atLeast: number };
}

export interface Asked {
  readonly answers: readonly Presence[];
  /** Why there is none, or not one for each; null: it answered. */
  readonly failure: string | null;
}

export interface Presences {
  readonly rules: ReadonlyMap<string, Rule>;
  define(kind: string, rule: SubjectRule): Rule;
  /** At most `idsMax` ids. Never rejects. */
  check(rule: Rule, ids: readonly string[], signal: AbortSignal): Promise<Asked>;
  /** Of one subject: those that are asked for in one turn go together. */
  readonly ask: AskSubject;
}

export function presencesOn(system: System, logger: Logger): Presences {
  const rules = new Map<string, Rule>();
  const undefinedKinds = new Set<string>();
  const waiting = new Map<Rule, Map<string, ((answer: Presence) => void)[]>>();

  async function check(rule: Rule, ids: readonly string[], signal: AbortSignal): Promise<Asked> {
    const asking = new AbortController();
    harmlessSignal(asking.signal, (error) =>
      logger.error('An abort listener of a check threw', { kind: rule.kind, error: describeThrown(error).message }),
    );
    const stop = (): void => asking.abort(signal.reason);
    const callOff = system.timer(checkMs, () =>
      asking.abort(new LastoutError('TIMEOUT', `No answer within ${checkMs} ms`)),
    );
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
    try {
      const answers: unknown = await Promise.race([started(rule, ids, asking.signal), whenAborted(asking.signal)]);
      if (!Array.isArray(answers) || answers.length !== ids.length)
        throw new Error(`It answered ${Array.isArray(answers) ? `${answers.length} of ${ids.length}` : show(answers)}`);
      const each: readonly unknown[] = Array.from(answers); // a hole is a wrong answer too
      const wrong = each.filter((answer) => !isPresence(answer));
      const failure =
        wrong.length === 0
          ? null
          : `It answered ${show(wrong[0])}; give 'present', 'over', 'absent' or 'unknown' for each`;
      if (failure !== null) warn(rule, wrong.length, failure);
      return { answers: each.map((answer) => (isPresence(answer) ? answer : 'unknown')), failure };
    } catch (error) {
      const failure = describeThrown(error).message;
      if (!signal.aborted) warn(rule, ids.length, failure);
      return { answers: ids.map(() => 'unknown'), failure };
    } finally {
      callOff();
      signal.removeEventListener('abort', stop);
    }
  }

  function warn({ kind }: Rule, ids: number, error: string): void {
    logger.warn('A check of subjects told nothing; they are kept', { kind, ids, error });
  }

  async function askWaiting(rule: Rule, asked: ReadonlyMap<string, ((answer: Presence) => void)[]>): Promise<void> {
    const ids = [...asked.keys()];
    for (let at = 0; at < ids.length; at += idsMax) {
      const some = ids.slice(at, at + idsMax);
      const { answers } = await check(rule, some, never);
      some.forEach((id, index) => asked.get(id)!.forEach((tell) => tell(answers[index]!)));
    }
  }
  function flush(): void {
    const batches = [...waiting];
    waiting.clear();
    for (const [rule, asked] of batches) void askWaiting(rule, asked);
  }
  function gather(rule: Rule, id: string, tell: (answer: Presence) => void): void {
    if (waiting.size === 0) system.soon(flush);
    let batch = waiting.get(rule);
    if (!batch) waiting.set(rule, (batch = new Map<string, ((answer: Presence) => void)[]>()));
    batch.set(id, [...(batch.get(id) ?? []), tell]);
  }

  return {
    rules,
    define(kind, rule) {
      const read = readRule(kind, rule);
      rules.set(kind, read);
      return read;
    },
    check,
    async ask(subject, signal) {
      const kind = kindOf(subject);
      const rule = rules.get(kind);
      if (rule) {
        const answer = new Promise<Presence>((tell) => gather(rule, idIn(subject), tell));
        return Promise.race([answer, whenAborted(signal).catch(() => 'unknown' as const)]);
      }
      if (!undefinedKinds.has(kind))
        logger.warn('A job is to be checked, but its kind of subject is not defined here: it runs', { kind });
      undefinedKinds.add(kind);
      return 'unknown';
    },
  };
}

const never = new AbortController().signal;

/** A check may throw before it returns a promise. */
async function started({ check }: Rule, ids: readonly string[], signal: AbortSignal): Promise<unknown> {
  return check(Object.freeze([...ids]), signal); // who sorts them in place would answer for others
}

function whenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    const stop = (): void => reject(signal.reason as Error);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
}

function isPresence(answer: unknown): answer is Presence {
  return answer === 'present' || answer === 'over' || answer === 'absent' || answer === 'unknown';
}

const everyMinMs = 1_000;
const confirmMax = 100;

function readRule(kind: string, rule: SubjectRule): Rule {
  checkName(kind, 'The kind of a subject');
  const where = `The rule of subjects "${kind}"`;
  const own = ownOptions(rule ?? null, ['check', 'every', 'confirm', 'brake'], where);
  const { every, confirm = 2, brake = { share: 0.3, atLeast: 20 } } = own;
  const check = reading(where, 'INVALID_INPUT', () => rule.check); // may be a method of a class
  if (typeof check !== 'function')
    throw new LastoutError('INVALID_INPUT', `${where}: check is ${show(check)}; give a function of ids.`);
  const bound = reading(where, 'INVALID_INPUT', () => check.bind(rule));
  const everyMs = toMs(every, `${where}: every`, 'INVALID_DURATION', { min: everyMinMs });
  if (!Number.isInteger(confirm) || confirm < 1 || confirm > confirmMax)
    throw new LastoutError(
      'INVALID_LIMIT',
      `${where}: confirm is ${show(confirm)}; give a whole number from 1 to ${confirmMax}.`,
    );
  const { share, atLeast } = ownOptions(brake ?? null, ['share', 'atLeast'], `${where}: brake`);
  const isShare = typeof share === 'number' && share >= 0 && share <= 1;
  if (!isShare || typeof atLeast !== 'number' || !Number.isSafeInteger(atLeast) || atLeast < 1)
    throw new LastoutError(
      'INVALID_LIMIT',
      `${where}: brake has share ${show(share)} and atLeast ${show(atLeast)}; give both: share from 0 to 1, atLeast a whole number from 1.`,
    );
  return { kind, check: bound, everyMs, confirm, brake: { share, atLeast } };
}
