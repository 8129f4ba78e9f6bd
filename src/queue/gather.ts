/**
 * Concurrent calls become one batch without the caller noticing: what is called in one turn goes out together, and what
 * is called while a batch is under way goes with the next. One batch at a time keeps the order of the calls.
 */
import { isUnknown, tellsNothing } from '../core/deadlines.js';
import { LastoutError } from '../core/errors.js';
import { type Inserted, type NewJob, noFilter, type Store } from '../core/store.js';

const batchMax = 1_000;

interface Call {
  readonly job: NewJob;
  resolve(inserted: Inserted): void;
  reject(error: unknown): void;
}

export interface Gatherer {
  add(job: NewJob): Promise<Inserted>;
  /** All or none, in its turn among the single calls. */
  addAll(jobs: readonly NewJob[]): Promise<readonly Inserted[]>;
  /** Resolves when everything accepted so far is answered. */
  settled(): Promise<void>;
}

export function gatherer(store: Store): Gatherer {
  /** The batch that still takes calls: the last one in line, until its turn comes. */
  let open: Call[] | null = null;
  let line: Promise<unknown> = Promise.resolve();

  function openBatch(): Call[] {
    const batch: Call[] = [];
    line = line.then(() => {
      if (open === batch) open = null;
      return send(batch);
    });
    return batch;
  }
  async function send(batch: readonly Call[]): Promise<void> {
    for (let from = 0; from < batch.length; from += batchMax) {
      const calls = batch.slice(from, from + batchMax);
      try {
        const jobs = calls.map(({ job }) => job);
        const answers = await insertSurely(store, jobs, false);
        calls.forEach((call, index) => call.resolve(answers[index]!));
      } catch (error) {
        for (const call of calls) call.reject(isUnknown(error) ? uncertain([call.job], error) : error);
      }
    }
  }

  return {
    add: (job) =>
      new Promise((resolve, reject) => {
        open ??= openBatch();
        open.push({ job, resolve, reject });
      }),
    addAll(jobs) {
      open = null; // later single calls come after these
      const answer = line
        .then(() => insertSurely(store, jobs, true))
        .catch((error: unknown) => {
          throw isUnknown(error) ? uncertain(jobs, error) : error;
        });
      line = answer.catch(() => undefined);
      return answer;
    },
    async settled() {
      for (let last = null as unknown; last !== line; ) {
        last = line;
        await line;
      }
    },
  };
}

/**
 * When nobody knows whether a batch arrived, the store is asked for its ids. If some are not there, it is sent again: what
 * did arrive, and may even have gone since, is known by its id and not stored a second time.
 */
async function insertSurely(store: Store, jobs: readonly NewJob[], atomic: boolean): Promise<readonly Inserted[]> {
  try {
    return await store.insert(jobs, { atomic });
  } catch (error) {
    if (!isUnknown(error)) throw error;
    try {
      return await insertAfterAll(store, jobs, atomic);
    } catch (again) {
      throw tellsNothing(again) ? error : again;
    }
  }
}

async function insertAfterAll(store: Store, jobs: readonly NewJob[], atomic: boolean): Promise<readonly Inserted[]> {
  const ids = jobs.map(({ id }) => id);
  const { jobs: found } = await store.find({ filter: { ...noFilter, ids }, cursor: null, limit: ids.length });
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

/** A refusal inside a batch is the caller's error alone. */
export function refusal(inserted: Inserted): LastoutError | null {
  if (inserted.outcome !== 'refused') return null;
  const { id, code, message, details } = inserted;
  return new LastoutError(code, message, { id, ...details });
}
