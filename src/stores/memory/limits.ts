/** Limits of queues, and what started in them lately. */
import type { QueueLimits } from '../../core/limits.js';
import { isUnlimited } from '../local/limits.js';
import type { ClaimRecord, Row, Starts, Tables } from '../local/tables.js';

export function createLimits(
  claims: ReadonlyMap<number, ClaimRecord>,
  liveAt: (seq: number) => Row | undefined,
): Pick<Tables, 'limits' | 'setLimits' | 'running' | 'starts' | 'setStarts'> {
  const limits = new Map<string, QueueLimits>();
  const started = new Map<string, readonly Starts[]>();

  return {
    limits: () => limits,
    setLimits(queue, wanted) {
      if (isUnlimited(wanted)) limits.delete(queue);
      else limits.set(queue, wanted);
      if (wanted.rate === null) started.delete(queue);
    },
    running(queues) {
      const running = new Map<string, number>();
      for (const record of claims.values()) {
        if (!record.queues.some((queue) => queues.includes(queue))) continue;
        for (const seq of record.seqs) {
          const row = liveAt(seq);
          if (row && row.epoch < record.epoch) running.set(row.queue, (running.get(row.queue) ?? 0) + 1);
        }
      }
      return running;
    },
    starts: (queue) => started.get(queue) ?? [],
    setStarts: (queue, starts) => void started.set(queue, starts),
  };
}
