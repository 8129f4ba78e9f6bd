/** Live jobs. A row says nothing about its place: a claim then writes one record and no row (see pending.ts). */
import { Place, type Row, type Tables } from '../local/tables.js';
import { limited, type Values } from './driver.js';
import { liveColumns, restOf } from './rows.js';
import type { Session } from './session.js';

export interface Live extends Pick<Tables, 'live' | 'liveAt' | 'add' | 'save' | 'matches'> {
  /** Writes due_at and priority where the columns lag behind: the place is found by them. */
  follow(row: Row): void;
  /** Live rows by number, in any order. */
  many(seqs: readonly number[]): Row[];
  remove(row: Row): void;
}

/** The columns of a live row and its place; a live job that is not pending is claimed. Three seeks, and no list. */
function selectLive({ names }: Session): string {
  const at = (place: Place): string =>
    `(select ${place} from ${names('pending')} p where p.place = ${place} and p.type = j.type ` +
    'and p.queue = j.queue and p.priority = j.priority and p.due_at = j.due_at and p.seq = j.seq)';
  const place = `coalesce(${at(Place.ready)}, ${at(Place.later)}, ${at(Place.behind)})`;
  return `select ${liveColumns('j')}, ${place} as place from ${names('jobs')} j`;
}

/** A search reads a few rows first, because the first one is mostly the one. */
const matchPages = { first: 4, next: 64 } as const;

export function createLive(session: Session): Live {
  const { names, sql, rows, policies, counts } = session;
  const jobs = names('jobs');
  const select = selectLive(session);
  const byId = sql(`${select} where j.id = ?`);
  const bySeq = sql(`${select} where j.seq = ?`);
  const bySeqs = sql(`${select} where j.seq in (select value from json_each(?))`);
  const ofType = sql(`${select} where j.type = ? and j.seq < ? order by j.seq desc ${limited}`);
  const ofKey = sql(`${select} where j.key = ? and j.type = ? and j.seq < ? order by j.seq desc ${limited}`);
  const common = 'seq, id, type, queue, priority, due_at, created_at, max_attempts, policy, input';
  const insertPlain = sql(`insert into ${jobs} (${common}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  const insert = sql(
    `insert into ${jobs} (${common}, subject, key, source, rest) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = sql(`update ${jobs} set rest = ?, priority = ?, due_at = ? where seq = ?`);
  const updateDue = sql(`update ${jobs} set priority = ?, due_at = ? where seq = ?`);
  const updateExpiry = sql(
    `update ${names('pending')} set expires_at = ? ` +
      'where place = ? and type = ? and queue = ? and priority = ? and due_at = ? and seq = ?',
  );
  const remove = sql(`delete from ${jobs} where seq = ?`);

  const rowIn = (values: Values | undefined): Row | undefined => values && session.live(values);

  function saveExpiry(row: Row): void {
    const known = rows.get(row.seq)!;
    if (row.place === Place.claimed || known.expiresAt === row.expiresAt) return;
    updateExpiry.run(row.expiresAt, row.place, row.type, row.queue, known.priority, known.dueAt, row.seq);
    known.expiresAt = row.expiresAt;
  }

  return {
    live: (id) => rowIn(byId.get(id)),
    liveAt(seq) {
      const known = rows.get(seq);
      if (known) return known.row.state === null ? known.row : undefined;
      return rowIn(bySeq.get(seq));
    },
    many(seqs) {
      return bySeqs.all(JSON.stringify(seqs)).map((values) => session.live(values));
    },
    add(row) {
      const { seq, id, type, queue, priority, dueAt, createdAt, maxAttempts, input, subject, key, source } = row;
      const policy = policies.use(row.policy);
      const rest = restOf(row, false);
      if (rest === null && subject === null && key === null && source === null) {
        insertPlain.run(seq, id, type, queue, priority, dueAt, createdAt, maxAttempts, policy, input);
      } else {
        // biome-ignore format: one line of values for one line of columns
        insert.run(seq, id, type, queue, priority, dueAt, createdAt, maxAttempts, policy, input, subject, key, source, rest);
      }
      session.know(row, policy);
      counts.advance('stored', 1);
    },
    save(row) {
      saveExpiry(row);
      // A place is found by priority and dueAt, so those of a row that stands somewhere are written by `put` alone.
      const known = rows.get(row.seq)!;
      if (row.place === Place.claimed) Object.assign(known, { priority: row.priority, dueAt: row.dueAt });
      update.run(restOf(row, false), known.priority, known.dueAt, row.seq);
    },
    follow(row) {
      const known = rows.get(row.seq)!;
      if (known.priority === row.priority && known.dueAt === row.dueAt) return;
      updateDue.run(row.priority, row.dueAt, row.seq);
      Object.assign(known, { priority: row.priority, dueAt: row.dueAt });
    },
    remove(row) {
      remove.run(row.seq);
    },
    /** By pages rather than by an open cursor: the verbs change rows while they read on. */
    *matches(type, key) {
      let before = Number.MAX_SAFE_INTEGER;
      for (let size: number = matchPages.first; ; size = matchPages.next) {
        const page = key === null ? ofType.all(type, before, size) : ofKey.all(key, type, before, size);
        for (const values of page) yield session.live(values);
        if (page.length < size) return;
        before = page.at(-1)![0] as number;
      }
    },
  };
}
