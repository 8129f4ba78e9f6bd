/** What a cleanup would remove now, by the very selection that removes it. */
import type { CleanupPolicy } from '../core/policy.js';
import type { PlanPage, Store } from '../core/store.js';
import type { System } from '../core/system.js';

export interface Plan {
  readonly removes: {
    readonly [kind: string]: { readonly count: number; readonly bytes: number; readonly sample: readonly string[] };
  };
  readonly policy: CleanupPolicy;
}

const pageLimit = 1_000;
const sampleMax = 10;
const kinds = ['age', 'count', 'cap'] as const;

export async function planOn(store: Store, system: System, policy: CleanupPolicy): Promise<Plan> {
  const sums = { age: empty(), count: empty(), cap: empty() };
  for (let cursor: string | null = null; ; ) {
    const page: PlanPage = await store.read({ log: 'plan', cleanup: policy, cursor, limit: pageLimit });
    for (const kind of kinds) {
      const { count, bytes, sample } = page[kind];
      sums[kind].count += count;
      sums[kind].bytes += bytes;
      sums[kind].sample.push(...sample.slice(0, sampleMax - sums[kind].sample.length));
    }
    if (page.next === null) return { removes: sums, policy };
    cursor = page.next;
    await new Promise<void>((resolve) => system.soon(resolve));
  }
}

function empty(): { count: number; bytes: number; sample: string[] } {
  return { count: 0, bytes: 0, sample: [] };
}
