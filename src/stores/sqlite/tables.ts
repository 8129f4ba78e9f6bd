/** The tables in an SQLite database. Writes go through at once; counts and numbers are written at the end of a step. */
import type { ClaimRequest } from '../../core/store.js';
import type { Tables, TallyState } from '../local/tables.js';
import { createClaims } from './claims.js';
import type { SqliteDatabase } from './driver.js';
import { createFinished } from './finished.js';
import { createLive } from './live.js';
import { createEventLog, createLineLog, createTombstones } from './logs.js';
import { createPending } from './pending.js';
import { createScan } from './scan.js';
import { namesOf } from './schema.js';
import { createSession, type Session, type StepPart } from './session.js';

export interface SqliteTables extends Tables {
  /** A step begins: what the last one knew is forgotten. */
  begin(): void;
  /** Writes what was gathered, before the commit. */
  flush(): void;
  /** Null when a claim would find something to do. */
  quiet(request: ClaimRequest, now: number): { readonly nextDueAt: number | null } | null;
}

export function createTables(db: SqliteDatabase, namespace: string, now: () => number): SqliteTables {
  const session = createSession(db, namesOf(namespace));
  const live = createLive(session);
  const pending = createPending(session, live);
  const claims = createClaims(session, live);
  const lineLog = createLineLog(session);
  const tombstones = createTombstones(session);
  const tally = createTally(session);
  const pauses = createPauses(session);
  const finished = createFinished(session, live, (row) => lineLog.drop(row));
  const { scan } = createScan(session, {
    live: (seqs) => live.many(seqs),
    finished: (seqs) => finished.many(seqs),
    heldSeqs: () => claims.heldSeqs(),
    expiredSeqs: () => pending.expiredSeqs(now()),
  });
  const parts: readonly StepPart[] = [claims, lineLog, tombstones, tally, ...session.parts];

  return {
    ...live,
    ...pending,
    ...claims,
    ...finished,
    ...pauses,
    ...createEventLog(session),
    nextSeq: () => session.counters.advance('seq', 1),
    nextEpoch: () => session.counters.advance('epoch', 1),
    scan,
    tallies: () => tally.tallies(),
    count: (queue, state, delta) => tally.count(queue, state, delta),
    addLines: (row, lines) => lineLog.addLines(row, lines),
    lines: (id) => lineLog.lines(id),
    tombstone: (id) => tombstones.tombstone(id),
    addTombstone: (tombstone) => tombstones.addTombstone(tombstone),
    begin() {
      for (const part of parts) part.begin();
    },
    flush() {
      for (const part of parts) part.flush?.();
    },
    quiet(request, at) {
      if (claims.anyLapsed(at) || !pending.quiet(request, pauses.paused(), at)) return null;
      return { nextDueAt: pending.nextDueAt() };
    },
  };
}

function createTally({ names, sql }: Session): Pick<Tables, 'tallies' | 'count'> & StepPart {
  const table = names('tally');
  const select = sql(`select queue, state, n from ${table}`);
  const add = sql(
    `insert into ${table} (queue, state, n) values (?, ?, ?) on conflict do update set n = n + excluded.n`,
  );
  const removeEmpty = sql(`delete from ${table} where queue = ? and state = ? and n = 0`);
  const deltas = new Map<string, Map<TallyState, number>>();

  /** Written before it is read, so that a reading step and a writing one see the same. */
  function flush(): void {
    for (const [queue, states] of deltas) {
      for (const [state, delta] of states) {
        if (delta === 0) continue;
        add.run(queue, state, delta);
        if (delta < 0) removeEmpty.run(queue, state);
      }
    }
    deltas.clear();
  }
  return {
    begin: () => deltas.clear(),
    flush,
    *tallies() {
      flush();
      for (const [queue, state, n] of select.all()) {
        yield { queue: queue as string, state: state as TallyState, n: n as number };
      }
    },
    count(queue, state, delta) {
      let states = deltas.get(queue);
      if (!states) {
        states = new Map();
        deltas.set(queue, states);
      }
      states.set(state, (states.get(state) ?? 0) + delta);
    },
  };
}

function createPauses({ names, sql }: Session): Pick<Tables, 'paused' | 'setPaused' | 'clearPauses'> {
  const table = names('queues');
  const select = sql(`select name from ${table}`);
  const insert = sql(`insert or ignore into ${table} (name) values (?)`);
  const remove = sql(`delete from ${table} where name = ?`);
  const removeAll = sql(`delete from ${table}`);
  return {
    paused: () => new Set(select.all().map(([name]) => name as string)),
    setPaused: (queue, paused) => void (paused ? insert : remove).run(queue),
    clearPauses: () => void removeAll.run(),
  };
}
