/** The leases that attempts of this process have taken: who closes waits for their end, and says which of them still live. */
import { markOf } from '../core/left-alive.js';
import { byIds } from '../core/pages.js';
import { atMost, pause } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import type { LeaseParts } from './parts.js';

/** Others may have ended those that came before. */
const rememberedMax = 1_000;
const lookAgainMs = 50;
/** A store that hangs is not waited for any longer. */
const answerMs = { least: 250, usual: 1_000 } as const;

export interface OwnLeases {
  /** `owner`: of the claim under which it was taken. */
  taken(id: string, owner: string): void;
  ended(id: string): void;
  /** What the attempts of a worker have taken and what still lives. */
  livingOf(owner: string): Promise<readonly string[]>;
  /** Waits for the end of all of them, at most until then by the monotonic clock; answers what still lives, and marks it. */
  allEnded(until: number): Promise<readonly string[]>;
}

export function ownLeases({ store, system, logger }: LeaseParts): OwnLeases {
  const ownerOf = new Map<string, string>();

  /** A store that cannot be asked does not say that they have ended. */
  async function livingAmong(ids: readonly string[], withinMs: number): Promise<readonly string[]> {
    let living = ids;
    const asked = async (): Promise<void> => {
      const records = await byIds(store, ids);
      living = records.filter(({ completedAt }) => completedAt === null).map(({ id }) => id);
    };
    if (ids.length > 0)
      await atMost(system, withinMs, asked()).catch((error: unknown) =>
        logger.warn('Whether leases have ended could not be found out', { error: describeThrown(error).message }),
      );
    return living;
  }

  /** In the store, where every process sees at once that they are left behind. */
  async function mark(ids: readonly string[]): Promise<void> {
    const marks = ids.map((id) => markOf(system.id(), id));
    let why: string | null = 'no answer';
    const marked = store.insert(marks, { atomic: false }).then(
      () => (why = null),
      (error: unknown) => (why = describeThrown(error).message),
    );
    await atMost(system, answerMs.least, marked);
    if (why !== null) logger.warn('What is left alive could not be marked', { error: why });
  }

  return {
    taken(id, owner) {
      ownerOf.set(id, owner);
      const [oldest] = ownerOf.keys();
      if (ownerOf.size > rememberedMax && oldest !== undefined) ownerOf.delete(oldest);
    },
    ended: (id) => void ownerOf.delete(id),
    livingOf: (owner) =>
      livingAmong(
        [...ownerOf.keys()].filter((id) => ownerOf.get(id) === owner),
        answerMs.usual,
      ),
    async allEnded(until) {
      const look = (ids: readonly string[]): Promise<readonly string[]> =>
        livingAmong(ids, Math.max(answerMs.least, until - system.monotonic()));
      let ids = await look([...ownerOf.keys()]);
      for (; ids.length > 0 && system.monotonic() < until; ids = await look(ids))
        await pause(system, Math.min(lookAgainMs, until - system.monotonic()), undefined, 'hold');
      if (ids.length === 0) return ids;
      const message =
        'The queue was closed while things that its jobs had leased still live; another process ends them';
      logger.warn(message, { leases: ids });
      await mark(ids);
      return ids;
    },
  };
}
