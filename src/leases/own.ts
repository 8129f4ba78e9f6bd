/** The leases that attempts of this process have taken: who stops waits for their end, and says which of them still live. */
import { byIds } from '../core/pages.js';
import { atMost, pause } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import type { LeaseParts } from './parts.js';

/** Others may have ended those that came before. */
const rememberedMax = 1_000;
const lookAgainMs = 50;
/** One look is taken in any case. */
const answerMs = 100;

export interface OwnLeases {
  /** `owner`: of the claim under which it was taken. */
  taken(id: string, owner: string): void;
  ended(id: string): void;
  /** Waits for the end of those that these workers have taken (null: all), at most until then by the monotonic clock; answers what still lives. */
  left(owners: readonly string[] | null, until: number): Promise<readonly string[]>;
}

export function ownLeases({ store, system, logger }: LeaseParts): OwnLeases {
  const ownerOf = new Map<string, string>();

  /** A store that cannot be asked does not say that they have ended. */
  async function livingOf(ids: readonly string[]): Promise<readonly string[]> {
    try {
      const records = await byIds(store, ids);
      return records.filter(({ completedAt }) => completedAt === null).map(({ id }) => id);
    } catch (error) {
      logger.warn('Whether leases have ended could not be found out', { error: describeThrown(error).message });
      return ids;
    }
  }

  /** A store that hangs is not waited for. */
  async function answerBy<T>(until: number, answer: Promise<T>, otherwise: T): Promise<T> {
    let known = otherwise;
    const answered = answer.then((value) => void (known = value));
    await atMost(system, Math.max(answerMs, until - system.monotonic()), answered);
    return known;
  }

  return {
    taken(id, owner) {
      ownerOf.set(id, owner);
      const [oldest] = ownerOf.keys();
      if (ownerOf.size > rememberedMax && oldest !== undefined) ownerOf.delete(oldest);
    },
    ended: (id) => void ownerOf.delete(id),
    async left(owners, until) {
      let ids: readonly string[] = [...ownerOf.keys()].filter(
        (id) => owners === null || owners.includes(ownerOf.get(id)!),
      );
      for (;;) {
        if (ids.length > 0) ids = await answerBy(until, livingOf(ids), ids);
        const leftMs = until - system.monotonic();
        if (ids.length === 0) return [];
        if (leftMs <= 0) break;
        await pause(system, Math.min(lookAgainMs, leftMs), undefined, 'hold');
      }
      logger.warn('A worker has stopped while things that it leased still live; another process ends them', {
        leases: ids,
      });
      return ids;
    },
  };
}
