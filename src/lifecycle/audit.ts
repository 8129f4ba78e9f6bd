/** The books: for each kind of thing, what was created has been released, or lives, or needs attention. */
import type { AuditPage, Store } from '../core/store.js';
import type { System } from '../core/system.js';

export interface Audit {
  readonly clean: boolean;
  readonly kinds: {
    readonly [kind: string]: {
      readonly created: number;
      readonly released: number;
      readonly live: number;
      readonly attention: readonly string[];
    };
  };
}

interface Sums {
  created: number;
  released: number;
  live: number;
  readonly attention: string[];
}

const pageLimit = 1_000;

export async function auditOn(store: Store, system: System): Promise<Audit> {
  const kinds = new Map<string, Sums>();
  for (let cursor: string | null = null; ; ) {
    const page: AuditPage = await store.read({ log: 'audit', cursor, limit: pageLimit });
    for (const [kind, part] of Object.entries(page.kinds)) {
      const sums = kinds.get(kind) ?? { created: 0, released: 0, live: 0, attention: [] };
      kinds.set(kind, sums);
      sums.created += part.created;
      sums.released += part.released;
      sums.live += part.live;
      sums.attention.push(...part.attention);
    }
    if (page.next === null) break;
    cursor = page.next;
    await new Promise<void>((resolve) => system.soon(resolve));
  }
  const clean = [...kinds.values()].every(isEven);
  return { clean, kinds: Object.fromEntries([...kinds].map(([kind, sums]) => [shortKind(kind), sums])) };
}

function isEven({ created, released, live, attention }: Sums): boolean {
  return attention.length === 0 && created === released + live;
}

/** `lastout.artifact` is an artifact to its users. */
function shortKind(kind: string): string {
  return kind.startsWith('lastout.') ? kind.slice('lastout.'.length) : kind;
}
