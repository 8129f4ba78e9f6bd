/** How late the cleanup is: for how long the job that goes first has been due to go. */
import { toJob } from '../core/job-view.js';
import { byIds } from '../core/pages.js';
import type { PassParts } from './pass.js';

/** Asked before a pass, told after it. Null: nothing goes for its age. */
export async function oldestLag({ store, system, cleanup }: PassParts): Promise<(() => number) | null> {
  const { age } = await store.readPlan({ cleanup, cursor: null, limit: 10 });
  if (age.sample.length === 0) return null;
  const due = (await byIds(store, age.sample)).flatMap((job) => toJob(job, cleanup).dueAt?.getTime() ?? []);
  const first = Math.min(...due, system.now());
  return () => system.now() - first;
}
