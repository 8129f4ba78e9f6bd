import { defineJob, type Queue } from 'lastout';
import { type LeaseRecord, type LeaseRepository, leaseKey, type ManualCleanup } from './domain.js';

const pageSize = 200;
/** One answer names no more marks than this. */
const marksMax = 1_000;

/**
 * The record `lease:{containerID}` is a job of that id, due when the lease expires. No worker takes it: being due is what
 * makes it expired, and it stays until the cleanup deletes it. A key with a TTL would be gone by then.
 */
const lease = defineJob<LeaseRecord, null>('lease', { queue: 'leases' });

interface Mark {
  readonly containerID: string;
  readonly reason: string;
}
/** One for each container: the first says since when. Nobody is to run it, so it is not due for as long as can be. */
const mark = defineJob<Mark, null>('manual-cleanup', {
  queue: 'manual-cleanup',
  delay: '3650d',
  deduplication: 'skip',
  deduplicationKey: ({ containerID }) => containerID,
});

/** Where the record can also be read as plain Redis: ioredis has these. */
export interface RedisView {
  set(key: string, value: string, mode: 'EX', seconds: number): Promise<unknown>;
  del(key: string): Promise<unknown>;
}

export function createLeaseRepository(queue: Queue, view: RedisView | null, now: () => Date): LeaseRepository {
  async function* every(name: string) {
    let cursor: string | null = null;
    do {
      const page = await queue.find({
        queue: name,
        state: 'pending',
        limit: pageSize,
        ...(cursor !== null && { cursor }),
      });
      yield* page.items;
      cursor = page.next;
    } while (cursor !== null);
  }

  return {
    async createLease(record, guard) {
      const id = leaseKey(record.containerID);
      await queue.enqueue(lease, record, { id, runAt: new Date(record.expiryTime), metadata: { guard } });
      await view?.set(id, JSON.stringify(record), 'EX', record.durationMinutes * 60);
    },

    async getExpiredLeases() {
      const due: { id: string; at: Date }[] = [];
      for await (const { input, scheduledFor } of every('leases'))
        if (scheduledFor <= now()) due.push({ id: (input as unknown as LeaseRecord).containerID, at: scheduledFor });
      return due.sort((a, b) => a.at.getTime() - b.at.getTime()).map(({ id }) => id);
    },

    /** The record goes last: as long as anything is left to do, it is found again. */
    async deleteLease(key) {
      await view?.del(key);
      const record = await queue.get(key);
      const subject = record?.metadata.guard;
      if (typeof subject === 'string')
        for (const held of (await queue.leases.find({ subject, state: 'held' })).items) await held.release();
      await queue.remove({ type: 'manual-cleanup', key: key.slice(leaseKey('').length) });
      await queue.remove(key);
    },

    async markForManualCleanup(containerID, reason) {
      await queue.enqueue(mark, { containerID, reason });
    },

    async needingManualCleanup() {
      const found: ManualCleanup[] = [];
      for await (const { input, createdAt } of every('manual-cleanup')) {
        found.push({
          ...(input as unknown as Mark),
          needsManualCleanup: true,
          since: createdAt.toISOString(),
        });
        if (found.length === marksMax) break;
      }
      return found;
    },
  };
}
