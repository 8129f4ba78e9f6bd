/**
 * Concurrent calls become one batch without the caller noticing: what is called in one turn goes out together, and what
 * is called while a batch is under way goes with the next. One batch at a time keeps the order of the calls.
 *
 * A server that answers in the order of the questions has two batches before it: while it stores one, the answers of the
 * other are told and their callers' next calls made ready. With one, client and server would take turns.
 */
import { isUnknown, tellsNothing } from '../core/deadlines.js';
import { LastoutError } from '../core/errors.js';
import type { Logger } from '../core/job.js';
import { byIds } from '../core/pages.js';
import type { Inserted, NewJob, Store } from '../core/store.js';
import { thisTurn } from '../core/this-turn.js';

/** The answer to a job that was not refused. */
export type Accepted = Exclude<Inserted, { readonly outcome: 'refused' }>;

const batchMax = 1_000;
/** Fewer calls are not worth a round trip of their own. */
const restMin = 16;

/** What goes out as one insert. Single calls are answered one by one, those of `addAll` together. */
interface Batch {
  readonly jobs: NewJob[];
  readonly atomic: boolean;
  answered(answers: readonly Inserted[]): void;
  failed(error: unknown): void;
}

export interface Gatherer {
  /** A refusal inside a batch is the caller's error alone. */
  add(job: NewJob): Promise<Accepted>;
  /** All or none, in its turn among the single calls. */
  addAll(jobs: readonly NewJob[]): Promise<readonly Inserted[]>;
  /** Resolves when everything accepted so far is answered. */
  settled(): Promise<void>;
}

export function gatherer(store: Store, logger: Logger): Gatherer {
  const abreast = store.traits.insertsAbreast;
  /** Before calls are shared out among two batches, all those of the turn must have come: answers of both may come in one. */
  const soon = abreast === 1 ? (next: () => void) => void thisTurn.then(next) : process.nextTick;
  const line: Batch[] = [];
  /** The batch that still takes calls: the last one in line, until its turn comes. */
  let open: Calls | null = null;
  const underWay = new Set<Batch>();
  let willSend = false;
  /** Batches whose fate is not known come first, in their order. */
  let unknown = 0;
  let lastUnknown: Promise<unknown> = Promise.resolve();
  let whenSettled: (() => void)[] = [];

  function stand(batch: Batch): void {
    line.push(batch);
    if (underWay.size < abreast) sendSoon();
  }
  function sendSoon(): void {
    if (willSend) return;
    willSend = true;
    soon(() => {
      willSend = false;
      while (line.length > 0 && underWay.size < abreast && unknown === 0) send(nextBatch());
      if (underWay.size > 0) return;
      for (const resolve of whenSettled) resolve();
      whenSettled = [];
    });
  }
  /** The first in line. The last one is cut where it would be much larger than the other batch under way. */
  function nextBatch(): Batch {
    const batch = line.shift()!;
    if (open === batch) open = null;
    if (abreast === 1 || line.length > 0 || !(batch instanceof Calls)) return batch;
    let total = batch.jobs.length;
    for (const other of underWay) total += other.jobs.length;
    const half = Math.ceil(total / 2);
    if (batch.jobs.length >= half + restMin) line.push((open = batch.splitAt(half)));
    return batch;
  }
  function send(batch: Batch): void {
    underWay.add(batch);
    const answered = (answers: readonly Inserted[]): void => over(batch, () => batch.answered(answers));
    const failed = (error: unknown): void => over(batch, () => batch.failed(error));
    void store.insert(batch.jobs, { atomic: batch.atomic }).then(answered, (error: unknown) => {
      if (isUnknown(error)) void resolveUnknown(batch, error).then(answered, failed);
      else failed(error);
    });
  }
  async function resolveUnknown(batch: Batch, error: unknown): Promise<readonly Inserted[]> {
    unknown += 1;
    const resolved = lastUnknown.then(() => insertAgain(store, batch, error));
    lastUnknown = resolved.catch(() => undefined);
    try {
      return await resolved;
    } finally {
      unknown -= 1;
    }
  }
  /** Who is answered and calls again at once is in time for the next batch. */
  function over(batch: Batch, tell: () => void): void {
    underWay.delete(batch);
    try {
      tell();
    } finally {
      sendSoon();
    }
  }

  return {
    add(job) {
      if (open === null || open.jobs.length === batchMax) stand((open = new Calls(logger)));
      return open.add(job);
    },
    addAll(jobs) {
      open = null; // later single calls come after these
      return new Promise((resolve, reject) => {
        stand({
          jobs: [...jobs],
          atomic: true,
          answered: resolve,
          failed: (error) => reject(isUnknown(error) ? uncertain(jobs, error) : error),
        });
      });
    },
    settled: () =>
      new Promise((resolve) => {
        if (underWay.size > 0 || line.length > 0) whenSettled.push(resolve);
        else resolve();
      }),
  };
}
/** What single callers wait for. */
class Calls implements Batch {
  readonly jobs: NewJob[] = [];
  readonly atomic = false;
  readonly #callers: { resolve(accepted: Accepted): void; reject(error: unknown): void }[] = [];

  constructor(readonly logger: Logger) {}

  add(job: NewJob): Promise<Accepted> {
    this.jobs.push(job);
    return new Promise((resolve, reject) => void this.#callers.push({ resolve, reject }));
  }

  /** Keeps the first calls and gives the others away. */
  splitAt(count: number): Calls {
    const others = new Calls(this.logger);
    others.jobs.push(...this.jobs.splice(count));
    others.#callers.push(...this.#callers.splice(count));
    return others;
  }

  answered(answers: readonly Inserted[]): void {
    this.#callers.forEach(({ resolve, reject }, index) => {
      const answer = answers[index]!;
      if (answer.outcome === 'refused') reject(refusal(answer));
      else resolve(tellSkipped(answer, this.jobs[index]!.type, this.logger));
    });
  }

  failed(error: unknown): void {
    this.#callers.forEach(({ reject }, index) =>
      reject(isUnknown(error) ? uncertain([this.jobs[index]!], error) : error),
    );
  }
}

/**
 * When nobody knows whether a batch arrived, the store is asked for its ids. If some are not there, it is sent again: what
 * did arrive, and may even have gone since, is known by its id and not stored a second time.
 */
async function insertAgain(store: Store, { jobs, atomic }: Batch, error: unknown): Promise<readonly Inserted[]> {
  try {
    return await insertAfterAll(store, jobs, atomic);
  } catch (again) {
    throw tellsNothing(again) ? error : again;
  }
}

async function insertAfterAll(store: Store, jobs: readonly NewJob[], atomic: boolean): Promise<readonly Inserted[]> {
  const found = await byIds(
    store,
    jobs.map(({ id }) => id),
  );
  const arrived = new Set(found.map(({ id }) => id));
  const isOurs = ({ id, idGiven }: NewJob): boolean => !idGiven && arrived.has(id);
  if (jobs.every(isOurs)) return jobs.map(({ id }) => ({ id, outcome: 'created' }));
  const answers = await store.insert(jobs, { atomic });
  return answers.map((answer, index) =>
    answer.outcome === 'existing' && !jobs[index]!.idGiven ? { ...answer, outcome: 'created' } : answer,
  );
}

function uncertain(jobs: readonly NewJob[], cause: unknown): LastoutError {
  const ids = jobs.map(({ id }) => id);
  const message =
    'The store stopped answering: whether the job was stored is not known. Look for it with get(id), ' +
    'or enqueue it again with the option id: the same id is never stored twice.';
  return new LastoutError('RESULT_UNKNOWN', message, { ids }, cause);
}

/** An answer that is no refusal, or the refusal as an error. */
export function acceptedOrThrow(inserted: Inserted): Accepted {
  if (inserted.outcome === 'refused') throw refusal(inserted);
  return inserted;
}

function refusal({ id, code, message, details }: Inserted & { outcome: 'refused' }): LastoutError {
  return new LastoutError(code, message, { id, ...details });
}

export function tellSkipped<T extends Inserted>(inserted: T, type: string, logger: Logger): T {
  if (inserted.outcome === 'skipped') logger.debug('Skipping duplicate job', { type, existingJobId: inserted.id });
  return inserted;
}
