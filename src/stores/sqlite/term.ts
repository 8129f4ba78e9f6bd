/** The maintainer's term, its ledger, the totals that the books are kept by, and the cards of workers. */
import type { Card, WorkerCard } from '../../core/store.js';
import { bounds, type Tables } from '../local/tables.js';
import { limited } from './driver.js';
import type { Session } from './session.js';

export function createTerm({ names, sql }: Session): Pick<Tables, 'term' | 'setTerm' | 'addEntry' | 'entries'> {
  const [term, ledger] = [names('term'), names('ledger')];
  const select = sql(`select no, holder, until, noted from ${term} where one = 1`);
  const put = sql(`insert or replace into ${term} (one, no, holder, until, noted) values (1, ?, ?, ?, ?)`);
  const insert = sql(`insert into ${ledger} (body) values (?)`);
  const trim = sql(`delete from ${ledger} where no <= ?`);
  const entries = sql(`select no, body from ${ledger} where no < ? order by no desc ${limited}`);

  return {
    term() {
      const found = select.get();
      if (!found) return undefined;
      const [no, holder, until, noted] = found as [number, string, number, number];
      return { no, holder, until, noted: noted === 1 };
    },
    setTerm: ({ no, holder, until, noted }) => void put.run(no, holder, until, +noted),
    addEntry(body) {
      const no = Number(insert.run(body).lastInsertRowid);
      trim.run(no - bounds.ledgerMax);
    },
    entries: (below, limit) =>
      entries.all(below, limit).map(([no, body]) => ({ no: no as number, body: body as string })),
  };
}

export function createCards({ names, sql }: Session): Pick<Tables, 'setCard' | 'cards' | 'dropCards'> {
  const table = names('cards');
  const put = sql(`insert or replace into ${table} (owner, card, due_at) values (?, ?, ?)`);
  const remove = sql(`delete from ${table} where owner = ?`);
  const all = sql(`select owner, card, due_at from ${table} order by owner`);
  const removeLapsed = sql(`delete from ${table} where due_at <= ?`);

  return {
    setCard: (owner, card, dueAt) => void (card ? put.run(owner, JSON.stringify(card), dueAt) : remove.run(owner)),
    cards: () =>
      all.all().map(
        ([owner, card, dueAt]): WorkerCard => ({
          owner: owner as string,
          card: JSON.parse(card as string) as Card,
          dueAt: dueAt as number,
        }),
      ),
    dropCards: (now) => void removeLapsed.run(now),
  };
}

/** Numbers like the others, which never go down. */
export function createTotals({ counts }: Session): Pick<Tables, 'addTotal' | 'totals'> {
  return {
    addTotal(kind, created, released) {
      counts.add('created', kind, created);
      counts.add('released', kind, released);
    },
    totals() {
      const totals = new Map<string, { kind: string; created: number; released: number }>();
      for (const { name, part: kind, n } of counts.all(['created', 'released'])) {
        const total = totals.get(kind) ?? { kind, created: 0, released: 0 };
        totals.set(kind, { ...total, [name]: n });
      }
      return totals.values();
    },
  };
}
