/**
 * Jobs by id for many who wait: what is asked in one turn, or while an answer is under way, is asked together. So a
 * thousand waiters that one event wakes are one read, and never more than one read at a time.
 */
import { byIds } from '../core/pages.js';
import type { Store, StoredJob } from '../core/store.js';
import { thisTurn } from '../core/this-turn.js';

/** Their inputs and results come with them. */
const idsMax = 100;

interface Asker {
  readonly id: string;
  answered(job: StoredJob | null): void;
  failed(error: unknown): void;
}

export function lookUpsOn(store: Store): (id: string) => Promise<StoredJob | null> {
  let line: Asker[] = [];
  let isUnderWay = false;

  async function askNext(): Promise<void> {
    const askers = line.slice(0, idsMax);
    line = line.slice(idsMax);
    try {
      const jobs = await byIds(
        store,
        askers.map(({ id }) => id),
      );
      const found = new Map(jobs.map((job) => [job.id, job]));
      for (const { id, answered } of askers) answered(found.get(id) ?? null);
    } catch (error) {
      for (const { failed } of askers) failed(error);
    }
  }
  async function askAll(): Promise<void> {
    while (line.length > 0) await askNext();
    isUnderWay = false;
  }

  return (id) =>
    new Promise((answered, failed) => {
      line.push({ id, answered, failed });
      if (isUnderWay) return;
      isUnderWay = true;
      void thisTurn.then(askAll);
    });
}
