/** What users see of a store: taken when the data were made, and compared with what a later version sees. */
import type { Job, Queue } from '../../src/index.js';

const everyQueue = ['default', 'mail', 'asleep', 'nights', 'often', 'once', 'paused', 'running', 'lastout'];

export async function viewOf(queue: Queue) {
  const jobs = await allJobs(queue);
  const users = jobs.filter(({ queue: name }) => name !== 'lastout');
  const artifacts = [];
  for (const { id } of users) artifacts.push(...(await queue.artifacts.list(id)));
  return JSON.parse(
    JSON.stringify({
      jobs: users,
      own: jobs
        .filter((job) => !users.includes(job))
        .map(({ id, type, state, scheduledFor }) => ({ id, type, state, scheduledFor })),
      stats: await queue.stats(),
      lines: await queue.logs('finished-talk'),
      removed: await queue.explain('removed'),
      held: await queue.explain('finished-return'),
      schedules: await queue.schedules(),
      leases: (await queue.leases.find()).items.map(({ id, kind, name, state, info, jobId, subject, expiresAt }) => ({
        ...{ id, kind, name, state, info, jobId, subject, expiresAt },
      })),
      artifacts,
      ledger: (await queue.ledger()).items,
    }),
  ) as View;
}

export interface View {
  readonly jobs: readonly Job[];
  readonly own: readonly { readonly id: string; readonly type: string; readonly state: string }[];
  readonly artifacts: readonly { readonly id: string; readonly name: string; readonly shortLink: string | null }[];
  readonly leases: readonly { readonly id: string; readonly name: string; readonly state: string }[];
  readonly ledger: readonly object[];
}

/** The library's own, too. */
export async function allJobs(queue: Queue): Promise<readonly Job[]> {
  const jobs: Job[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await queue.find({ queue: everyQueue, limit: 200, ...(cursor !== undefined && { cursor }) });
    jobs.push(...page.items);
    cursor = page.next;
  }
  return jobs;
}
