/** What a cleanup would remove now, by the very selection that removes it, and what stays only because it is held. */
import { isUnknown } from '../core/deadlines.js';
import { type Code, LastoutError } from '../core/errors.js';
import type { CleanupPolicy } from '../core/policy.js';
import type { PlanPage, PlanPart, Store } from '../core/store.js';
import type { System } from '../core/system.js';

export interface Plan {
  readonly removes: {
    readonly [kind: string]: { readonly count: number; readonly bytes: number; readonly sample: readonly string[] };
  };
  /**
   * Finished jobs that are held now: no rule looks at them, whichever would take them. The sample has those first whose hold
   * ends first, and of one end those first that were enqueued first.
   */
  readonly held: { readonly count: number; readonly bytes: number; readonly sample: readonly string[] };
  readonly policy: CleanupPolicy;
}

const pageLimit = 1_000;
const sampleMax = 10;
const tendedMax = 500;
/** A store that says without end that there is more to tend does not keep a plan from its answer. */
const tendingsMax = 10_000;
const untended: ReadonlySet<Code> = new Set(['STORE_READONLY', 'STORE_FULL', 'RESULT_UNKNOWN']);

/**
 * The sweep tends before it selects: a hold that is over is lifted, a job past its ttl ends as expired, and then the rules see
 * them. So the plan tends, too. That is no part of the cleanup: every claim, every worker and the rhythm of tending do the
 * same at any moment, nothing is removed that they would not remove, and what callers see of a job stays as it was.
 */
export async function planOn(store: Store, system: System, policy: CleanupPolicy): Promise<Plan> {
  await tendAll(store, system);
  const removes = { age: empty(), count: empty(), cap: empty() };
  const held = empty();
  for (let cursor: string | null = null; ; ) {
    const page: PlanPage = await store.read({ log: 'plan', cleanup: policy, cursor, limit: pageLimit });
    for (const kind of ['age', 'count', 'cap'] as const) add(removes[kind], page[kind]);
    add(held, page.held);
    if (page.next === null) return { removes, held, policy };
    cursor = page.next;
    await nextTurn(system);
  }
}

/** A store that cannot be written now still says what is in it; one that does not answer is asked for that, and says so itself. */
async function tendAll(store: Store, system: System): Promise<void> {
  try {
    for (let n = 0; n < tendingsMax && (await tendOnce(store)); n++) await nextTurn(system);
  } catch (error) {
    if (!(error instanceof LastoutError && untended.has(error.code))) throw error;
  }
}

/** True: there is more. To tend twice is to tend once, so an answer that was lost is asked for again. */
async function tendOnce(store: Store): Promise<boolean> {
  const tend = async (): Promise<boolean> =>
    (await store.sweep({ limit: tendedMax, cleanup: null, term: null, entry: null })).more;
  return tend().catch((error: unknown) => (isUnknown(error) ? tend() : Promise.reject(error as Error)));
}

function nextTurn(system: System): Promise<void> {
  return new Promise((resolve) => system.soon(resolve));
}

interface Sum {
  count: number;
  bytes: number;
  readonly sample: string[];
}

function add(sum: Sum, { count, bytes, sample }: PlanPart): void {
  sum.count += count;
  sum.bytes += bytes;
  sum.sample.push(...sample.slice(0, sampleMax - sum.sample.length));
}

function empty(): Sum {
  return { count: 0, bytes: 0, sample: [] };
}
