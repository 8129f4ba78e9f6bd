/**
 * Concurrent calls become one batch without the caller noticing: what is called in one turn goes out together, and what
 * is called while a batch is under way goes with the next. One batch at a time keeps the order of the calls.
 */
import { LastoutError } from '../core/errors.js';
import type { Inserted, NewJob, Store } from '../core/store.js';

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
        const answers = await store.insert(
          calls.map(({ job }) => job),
          { atomic: false },
        );
        calls.forEach((call, index) => call.resolve(answers[index]!));
      } catch (error) {
        for (const call of calls) call.reject(error);
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
      const answer = line.then(() => store.insert(jobs, { atomic: true }));
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

/** A refusal inside a batch is the caller's error alone. */
export function refusal(inserted: Inserted): LastoutError | null {
  return inserted.outcome === 'refused' ? new LastoutError(inserted.code, inserted.message, { id: inserted.id }) : null;
}
