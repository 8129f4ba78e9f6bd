/** What the verbs are made of (`redisVerbs` in store.ts). */
import type { Hint, StoreContext } from '../../core/store.js';
import type { Call } from './call.js';
import type { Mark } from './check.js';
import type { Identity } from './identity.js';

export interface RedisParts {
  readonly call: Call;
  readonly context: StoreContext;
  readonly mark: Mark;
  readonly identity: Identity;
  /** Why the server that says this of its replication may not have the last word; null: it is the primary. */
  doubtOf(info: string): Promise<string | null>;
  /** The database and something random, without spaces: who publishes a hint. */
  readonly sender: string;
  /** Tells the listeners of this process; the others hear what the script publishes. */
  give(hints: readonly Hint[]): void;
}
