import { defineJob, type Job, type Queue } from 'lastout';
import type { ContainerRecord, ContainerRepository, StoredContainer } from './domain.js';

/** How long a terminated container can still be asked about. */
const keepTerminated = '15m';
const pageSize = 200;
/** More than this are not shown in one answer. */
const listMax = 1_000;

/**
 * A record is a job that nobody runs: pending while the container lives, cancelled when it is terminated, and removed by
 * lastout's own retention. It is due only when something has gone wrong for a long time.
 */
const container = defineJob<ContainerRecord, null>('container', {
  queue: 'containers',
  keep: { cancelled: keepTerminated },
});

const idOf = (id: string): string => `container:${id}`;

export function createContainerRepository(queue: Queue): ContainerRepository {
  return {
    async save(record) {
      const runAt = new Date(Date.parse(record.expiryAt) + 24 * 3_600_000);
      await queue.enqueue(container, record, { id: idOf(record.id), runAt });
    },
    async get(id) {
      const job = await queue.get(idOf(id));
      return job && stored(job);
    },
    async list() {
      const found: StoredContainer[] = [];
      let cursor: string | null = null;
      do {
        const page = await queue.find({ queue: 'containers', limit: pageSize, ...(cursor !== null && { cursor }) });
        found.push(...page.items.map(stored));
        cursor = page.next;
      } while (cursor !== null && found.length < listMax);
      return found;
    },
    async delete(id) {
      await queue.cancel(idOf(id), { reason: 'terminated' });
    },
  };
}

function stored(job: Job): StoredContainer {
  return { ...(job.input as unknown as ContainerRecord), terminated: job.state !== 'pending' };
}
