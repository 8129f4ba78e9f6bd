/** What is done when the last process has been tampered with, and before the judge is asked. */
import { expect } from 'vitest';
import type { Job, Queue } from '../../src/index.js';
import { until } from './fleet.js';

/** A job that has stalled twice comes back apart from its neighbours, up to half a minute later; nobody waits here. */
export async function drain(queue: Queue): Promise<void> {
  const hasEnded = async (): Promise<boolean> => {
    const { total } = await queue.stats();
    if (total.delayed > 0) await queue.reschedule({ state: 'pending' }, { delay: 0 });
    return total.pending + total.processing === 0;
  };
  await until('all jobs have ended', hasEnded).catch(async (error: unknown) => {
    throw new Error(`${(error as Error).message}: ${await whatIsLeft(queue)}`);
  });
}

async function whatIsLeft(queue: Queue): Promise<string> {
  const { total } = await queue.stats();
  const { items } = await queue.find({ state: ['pending', 'processing'], limit: 5 });
  return `${JSON.stringify(total)} ${await explained(queue, items)}`;
}

async function explained(queue: Queue, jobs: readonly Job[]): Promise<string> {
  const reasons = await Promise.all(jobs.map(async ({ id }) => (await queue.explain(id)).because));
  return JSON.stringify({ jobs, reasons });
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
  for (const state of ['pending', 'processing', 'completed', 'failed', 'cancelled', 'expired'] as const) {
    const there = jobs.filter((job) => job.state === state);
    const examples = there.length === total[state] ? '' : await explained(queue, there.slice(0, 5));
    expect({ [state]: total[state] }, examples).toEqual({ [state]: there.length });
  }
}
