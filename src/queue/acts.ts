/** What an operator does with jobs by hand: cancel, retry, remove, reschedule; and looking them up. */
import { readableMessage, whyUnreadable } from '../core/coded.js';
import { refuseOther, typeBefore } from '../core/definition.js';
import { openCursor, type Paged, sealCursor } from '../core/cursor.js';
import { show } from '../core/duration.js';
import { isUnknown, tellsNothing } from '../core/deadlines.js';
import { LastoutError } from '../core/errors.js';
import { type FinishedState, type Job, type JobOptions, type Page, type State, states } from '../core/job.js';
import { toJob } from '../core/job-view.js';
import { checkId } from '../core/names.js';
import { checkPriority, readWhen } from '../core/options.js';
import type { Freeing } from '../core/owned.js';
import { byIds, moveEvery } from '../core/pages.js';
import type { CleanupPolicy } from '../core/policy.js';
import { type JobFilter, type Move, type Moved, type MoveOutcome, noFilter, type Store } from '../core/store.js';
import type { System } from '../core/system.js';
import { storable } from '../core/thrown.js';
import { ownOptions, readFlag } from '../core/own-options.js';
import { timeOf } from '../core/reading.js';
import { type Filter, isThing, mayBeThings, ownFilter, readFilter, readWhich, type Which } from './filter.js';
import { type Removed, removeWithAllTheyOwn } from './remove.js';

export interface Act {
  reason?: string;
  force?: boolean;
  dryRun?: boolean;
  cursor?: string;
  /** Of `retry`: also what was retried before. */
  again?: boolean;
}

/** At most 1,000 items a call; `next` goes on as `cursor`. */
export interface Acted<O extends string> {
  readonly matched: number;
  readonly items: readonly { readonly id: string; readonly outcome: O; readonly newId?: string }[];
  readonly next: string | null;
}

type Retried = Acted<'retried' | 'already_retried' | 'skipped' | 'not_finished'>;

/** What ends or moves a record by itself would leave its bytes behind. */
const notForThings: ReadonlySet<Move['kind']> = new Set(['cancel', 'retry', 'reschedule']);
const itemsMax = 1_000;
const pageMax = 200;
const pageDefault = 50;
const reasonBytesMax = 1_024;

export function actsOn(store: Store, system: System, cleanup: CleanupPolicy, freeing: Freeing) {
  /** By filter, an act looks only at the states it can change; by id, it answers for every job named. */
  async function act<O extends MoveOutcome>(
    which: Which,
    verb: Paged,
    acting: readonly State[],
    options: Act,
    how: Move | ((asked: JobFilter) => Move),
  ): Promise<Acted<O>> {
    const asked = readWhich(which, verb);
    const move = typeof how === 'function' ? how(asked) : how;
    const filter: JobFilter = asked.ids === null && asked.states === null ? { ...asked, states: acting } : asked;
    const dryRun = options.dryRun ?? false;
    const cursor = openCursor(verb, options.cursor);
    const { items, next } =
      (notForThings.has(move.kind) && mayBeThings(filter) && (await moveJobs(filter, move, dryRun, cursor))) ||
      (await store.move({ filter, move, dryRun, cursor, limit: itemsMax }));
    return { matched: items.length, items: items as Acted<O>['items'], next: sealCursor(verb, next) };
  }

  /** Without the records of artifacts and temporary folders among them; null: there are none. */
  async function moveJobs(
    filter: JobFilter,
    move: Move,
    dryRun: boolean,
    cursor: string | null,
  ): Promise<Moved | null> {
    const { jobs, next } = await store.find({ filter, cursor, limit: itemsMax });
    const ids = jobs.filter((job) => !isThing(job)).map(({ id }) => id);
    if (ids.length === jobs.length) return null;
    if (ids.length === 0) return { items: [], next };
    const request = { filter: { ...noFilter, ids }, move, dryRun, limit: itemsMax };
    return { items: await moveEvery(store, request), next };
  }

  /**
   * A job says which retry was made of it, so that what became of an unknown one is seen by looking, and sending it again makes
   * nothing twice. Whoever is told that nothing happened retries again: so what stays unknown is said to be so.
   */
  async function retrySurely(send: (dryRun?: true) => Promise<Retried>): Promise<Retried> {
    try {
      return await send();
    } catch (error) {
      if (!isUnknown(error)) throw error;
      try {
        const seen = await send(true);
        const isDone = seen.items.every(({ outcome, newId }) => outcome !== 'retried' || newId !== undefined);
        return isDone ? seen : await send();
      } catch (again) {
        throw tellsNothing(again) ? error : again;
      }
    }
  }

  return {
    cancel(which: Which, given?: Act): Promise<Acted<'cancelled' | 'requested' | `already:${FinishedState}`>> {
      const options = readAct(given, 'cancel');
      const reason = storable(options.reason ?? 'Cancelled', reasonBytesMax);
      return act(which, 'cancel', ['pending', 'processing'], options, {
        kind: 'cancel',
        reason,
        force: options.force ?? false,
      });
    },
    async retry(which: Which, given?: Act): Promise<Retried> {
      const options = readAct(given, 'retry', ['again']);
      const newIds = Array.from({ length: typeof which === 'string' ? 1 : itemsMax }, () => system.id());
      const again = options.again ? ({ again: true } as const) : {};
      return retrySurely((dryRun) =>
        act(which, 'retry', ['failed'], dryRun ? { ...options, dryRun } : options, ({ ids }) => ({
          ...{ kind: 'retry', newIds, ...again },
          // Who names a job means that one.
          ...(ids === null && { failuresOnly: true }),
        })),
      );
    },
    async remove(which: Which, given?: Act): Promise<Removed> {
      const options = readAct(given, 'remove');
      const reason = options.reason ? { reason: storable(options.reason, reasonBytesMax) } : {};
      const move = { kind: 'remove', force: options.force ?? false, ...reason } as const;
      const send = (): Promise<Acted<Removed['items'][number]['outcome'] | 'owing'>> =>
        act(which, 'remove', states, options, move);
      return removeWithAllTheyOwn(store, freeing, { which, options, move }, send);
    },
    /** Answers how many; a second hold takes the place of the first. What is being removed is held no more. */
    hold(which: Which, reason: string, until?: Date): Promise<number> {
      const move = { kind: 'hold', reason: checkReason(reason), until: checkUntil(until, system.now()) } as const;
      return all('held', (cursor) => act(which, 'hold', states, cursor, move));
    },
    release(which: Which): Promise<number> {
      return all('released', (cursor) => act(which, 'release', states, cursor, { kind: 'unhold' }));
    },
    reschedule(
      which: Which,
      to: Pick<JobOptions, 'delay' | 'runAt' | 'priority'>,
      given?: Act,
    ): Promise<Acted<'moved' | 'not_pending'>> {
      const options = readAct(given, 'reschedule');
      const own = ownOptions(to, ['delay', 'runAt', 'priority'], 'The new time of reschedule');
      const when = readWhen(own) ?? null;
      const priority = own.priority === undefined ? null : checkPriority(own.priority);
      if (when === null && priority === null)
        throw new LastoutError(
          'INVALID_DELAY',
          'reschedule needs a delay, a runAt or a priority; run now is { delay: 0 }.',
        );
      return act(which, 'reschedule', ['pending'], options, { kind: 'reschedule', when, priority });
    },
    async get(first: unknown, second?: unknown): Promise<Job | null> {
      const type = typeBefore(first);
      const [stored] = await byIds(store, [checkId(type === null ? first : second)]);
      const job = stored ? toJob(stored, cleanup) : null;
      if (job) refuseOther(job, type);
      return job;
    },
    async find(given: Filter & { limit?: number; cursor?: string } = {}): Promise<Page<Job>> {
      const { limit, cursor, ...filter } = ownFilter(given, ['limit', 'cursor']);
      const { jobs, next } = await store.find({
        filter: readFilter(filter),
        cursor: openCursor('find', cursor),
        limit: checkLimit(limit),
      });
      return { items: jobs.map((job) => toJob(job, cleanup)), next: sealCursor('find', next) };
    },
    async logs(id: string): Promise<readonly { at: Date; message: string; fields: object | null }[]> {
      const lines = await store.readLines(checkId(id));
      return lines.map(({ at, message, fields }) => {
        const isLost = fields !== null && whyUnreadable(fields) !== null;
        return {
          at: new Date(at),
          message: isLost ? readableMessage(fields) : message,
          fields: fields === null || isLost ? null : (JSON.parse(fields) as object),
        };
      });
    },
  };
}

/** Page after page, to the end. */
async function all<O extends string>(
  outcome: O,
  send: (page: Act) => Promise<Acted<O | MoveOutcome>>,
): Promise<number> {
  let n = 0;
  for (let cursor: string | null = null; ; ) {
    const { items, next }: Acted<O | MoveOutcome> = await send(cursor === null ? {} : { cursor });
    n += items.filter((item) => item.outcome === outcome).length;
    if (next === null) return n;
    cursor = next;
  }
}

function readAct(given: Act | undefined, verb: string, own: readonly (keyof Act)[] = []): Act {
  const options = ownOptions(given, ['reason', 'force', 'dryRun', 'cursor', ...own], `The options of ${verb}`);
  for (const flag of ['force', 'dryRun', 'again'] as const) readFlag(options[flag], `${flag} of ${verb}`);
  const reason: unknown = options.reason;
  if (reason === undefined || typeof reason === 'string') return options;
  throw new LastoutError('INVALID_INPUT', `The reason of ${verb} is ${show(reason)}; give a text, or leave it out.`);
}

function checkReason(reason: unknown): string {
  if (typeof reason === 'string' && reason.trim() !== '') return storable(reason, reasonBytesMax);
  throw new LastoutError('INVALID_INPUT', `The reason of hold is ${show(reason)}; say why, for who finds it later.`);
}

/** Null: until it is released. */
function checkUntil(until: unknown, now: number): number | null {
  if (until === undefined) return null;
  const at = timeOf(until);
  if (at > now) return at;
  const shown = Number.isNaN(at) ? show(until) : new Date(at).toISOString();
  throw new LastoutError('INVALID_DATE', `until of hold is ${shown}; give a Date that is still to come.`);
}

export function checkLimit(limit: unknown): number {
  if (limit === undefined) return pageDefault;
  if (!Number.isInteger(limit) || (limit as number) < 1 || (limit as number) > pageMax) {
    throw new LastoutError('INVALID_LIMIT', `limit is ${show(limit)}; give a whole number from 1 to ${pageMax}.`);
  }
  return limit as number;
}
