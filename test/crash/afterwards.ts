/** What is done when the last process has been tampered with, and before the judge is asked. */
import { expect } from 'vitest';
import type { Job, Queue } from '../../src/index.js';
import { until } from './fleet.js';

/** A job that has stalled twice comes back apart from its neighbours, up to half a minute later; nobody waits here. */
export async function drain(queue: Queue): Promise<void> {
  await until('all jobs have ended', async () => {
    const { total } = await queue.stats();
    if (total.delayed > 0) await queue.reschedule({ state: 'pending' }, { delay: 0 });
    return total.pending + total.processing === 0;
  });
}

export async function everyJob(queue: Queue): Promise<Job[]> {
  const jobs: Job[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page = await queue.find({ limit: 200, ...(cursor !== '' && { cursor }) });
    jobs.push(...page.items);
    cursor = page.next;
  }
  return jobs;
}

/** What is counted is what is there. */
export async function expectTrueCounts(queue: Queue, jobs: readonly Job[]): Promise<void> {
  const { total } = await queue.stats();
  for (const state of ['pending', 'processing', 'completed', 'failed', 'cancelled', 'expired'] as const)
    expect({ [state]: total[state] }).toEqual({ [state]: jobs.filter((job) => job.state === state).length });
}
