/** What a cleanup would remove now, by the very selection that removes it, and what stays only because it is held. */
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

export async function planOn(store: Store, system: System, policy: CleanupPolicy): Promise<Plan> {
  const removes = { age: empty(), count: empty(), cap: empty() };
  const held = empty();
  for (let cursor: string | null = null; ; ) {
    const page: PlanPage = await store.read({ log: 'plan', cleanup: policy, cursor, limit: pageLimit });
    for (const kind of ['age', 'count', 'cap'] as const) add(removes[kind], page[kind]);
    add(held, page.held);
    if (page.next === null) return { removes, held, policy };
    cursor = page.next;
    await new Promise<void>((resolve) => system.soon(resolve));
  }
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
