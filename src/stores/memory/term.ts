/** The maintainer's term, its ledger, and the cards of workers. */
import type { Card, WorkerCard } from '../../core/store.js';
import { bounds, type Tables, type Term } from '../local/tables.js';

type Part = Pick<
  Tables,
  'term' | 'setTerm' | 'addEntry' | 'entries' | 'setCard' | 'cards' | 'dropCards' | 'addTotal' | 'totals'
>;

export function createTerm(): Part {
  let term: Term | undefined;
  const entries: { readonly no: number; readonly body: string }[] = [];
  const cards = new Map<string, { readonly card: Card; readonly dueAt: number }>();
  const totals = new Map<string, { kind: string; created: number; released: number }>();

  return {
    term: () => term,
    setTerm: (next) => void (term = next),
    addEntry(body) {
      entries.push({ no: (entries.at(-1)?.no ?? 0) + 1, body });
      if (entries.length > bounds.ledgerMax) entries.shift();
    },
    entries: (below, limit) =>
      entries
        .filter(({ no }) => no < below)
        .reverse()
        .slice(0, limit),
    setCard(owner, card, dueAt) {
      if (card) cards.set(owner, { card, dueAt });
      else cards.delete(owner);
    },
    cards: () =>
      [...cards].map(([owner, kept]): WorkerCard => ({ owner, ...kept })).sort((a, b) => (a.owner < b.owner ? -1 : 1)),
    dropCards(now) {
      for (const [owner, { dueAt }] of cards) if (dueAt <= now) cards.delete(owner);
    },
    addTotal(kind, created, released) {
      const total = totals.get(kind) ?? { kind, created: 0, released: 0 };
      totals.set(kind, { kind, created: total.created + created, released: total.released + released });
    },
    totals: () => totals.values(),
  };
}
