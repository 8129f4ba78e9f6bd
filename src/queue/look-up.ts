/**
 * Jobs by id for many who wait: what is asked in one turn, or while an answer is under way, is asked together. So a
 * thousand waiters that one event wakes are one read, and never more than one read at a time.
 */
import { noFilter, type Store, type StoredJob } from '../core/store.js';

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
    const ids = [...new Set(askers.map(({ id }) => id))];
    try {
      const { jobs } = await store.find({ filter: { ...noFilter, ids }, cursor: null, limit: ids.length });
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
      queueMicrotask(() => void askAll());
    });
}
