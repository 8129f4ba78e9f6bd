/** The books: what was made and what went, beside what is there. */
import type { State } from '../../core/job.js';
import { seqOf } from '../../core/refusal.js';
import { type AuditKind, type AuditPage, noFilter, type PageRequest } from '../../core/store.js';
import { holderOf, kindOf, type Step } from './step.js';
import { Place, type Row } from './tables.js';
import { stateOf } from './view.js';

const attentionMax = 100;

type Kind = { -readonly [K in keyof AuditKind]: AuditKind[K] } & { readonly attention: string[] };

export function audit(step: Step, { cursor, limit }: PageRequest): AuditPage {
  const kinds = new Map<string, Kind>();
  const of = (kind: string): Kind => {
    let counts = kinds.get(kind);
    if (!counts) kinds.set(kind, (counts = { created: 0, released: 0, live: 0, attention: [] }));
    return counts;
  };
  if (cursor === null)
    for (const { kind, created, released } of step.tables.totals()) Object.assign(of(kind), { created, released });
  const before = cursor === null ? Number.MAX_SAFE_INTEGER : seqOf(cursor);
  const { rows, next } = step.tables.scan({ filter: noFilter, before, limit, examinedMax: limit, now: step.now });
  const found = new Map<string, { queue: string; state: State | 'replaced'; n: number }>();
  const find = (queue: string, state: State | 'replaced'): void => {
    const counted = found.get(`${state} ${queue}`) ?? { queue, state, n: 0 };
    counted.n += 1;
    found.set(`${state} ${queue}`, counted);
  };
  let amiss = 0;
  for (const row of rows) {
    const counts = of(kindOf(row));
    find(row.queue, stateOf(step, row));
    if (row.replaced) find(row.queue, 'replaced');
    if (isWell(step, row)) {
      counts.live += 1;
      continue;
    }
    counts.attention.push(row.id);
    amiss += 1;
    if (amiss === attentionMax) return pageOf(row.seq);
  }
  return pageOf(next);

  function pageOf(last: number | null): AuditPage {
    return { kinds: Object.fromEntries(kinds), found: [...found.values()], next: last?.toString(36) ?? null };
  }
}

function isWell(step: Step, row: Row): boolean {
  if (row.state !== null) return true;
  if (row.place === Place.claimed && !holderOf(step, row)) return false;
  const { ownedBy } = row;
  return ownedBy === null || (step.tables.live(ownedBy) ?? step.tables.finished(ownedBy)) !== undefined;
}
