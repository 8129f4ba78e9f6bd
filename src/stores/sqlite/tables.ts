/** The tables in an SQLite database. Writes go through at once; counts and numbers are written at the end of a step. */
import type { ClaimRequest, NewJob } from '../../core/store.js';
import { type Allowance, allowancesOf, earlier, firstOpening, roomIn } from '../local/limits.js';
import { type Tables, type TallyState, tallyStates } from '../local/tables.js';
import { createClaims } from './claims.js';
import type { SqliteDatabase } from './driver.js';
import { createDueCount } from './due.js';
import { createFences } from './fences.js';
import { createFinished } from './finished.js';
import { createHeld } from './held.js';
import { createKnownIds } from './ids.js';
import { createLimits } from './limits.js';
import { createLive } from './live.js';
import { createEventLog, createLineLog, createTombstones } from './logs.js';
import { createMatches } from './matches.js';
import { createOpenRun, type OpenRun } from './open-run.js';
import { createHolds, createOwned } from './owned.js';
import { createPending, type Pending } from './pending.js';
import { createScan } from './scan.js';
import { namesOf } from './schema.js';
import { createSession, type Session, type StepPart } from './session.js';
import { createCards, createTerm, createTotals } from './term.js';

export interface SqliteTables extends Tables {
  /** A step begins: what the last one knew is forgotten. */
  begin(writes: boolean): void;
  /** Writes what was gathered, before the commit. */
  flush(): void;
  /** After a step whose commit is not ours to see: everything is forgotten. */
  forget(): void;
  /** Stores a plain job beside those that came just before it, without a step. False: it takes one. */
  join(job: NewJob, now: number): boolean;
  /** Null when a claim would find something to do. */
  quiet(request: ClaimRequest, now: number): { readonly nextDueAt: number | null } | null;
  /** Adds something and takes it away: whether writing works, and whether the file can grow, is seen by writing. */
  rewrite(): void;
}

/** `isOurs`: nobody else writes by this connection. */
export function createTables(db: SqliteDatabase, namespace: string, isOurs: boolean): SqliteTables {
  const names = namesOf(namespace);
  const session = createSession(db, names, isOurs);
  // A row that is written as it was is not written at all; this one takes pages of its own.
  const added = session.sql(`insert into ${names('meta')} (name, value) values ('probe', hex(zeroblob(8192)))`);
  const taken = session.sql(`delete from ${names('meta')} where name = 'probe'`);
  const live = createLive(session);
  const pending = createPending(session, live);
  const claims = createClaims(session, live);
  const held = createHeld(session, live, claims);
  const ids = createKnownIds(session);
  const lineLog = createLineLog(session);
  const tombstones = createTombstones(session);
  const pauses = createPauses(session);
  const limits = createLimits(session);
  const quiet = createQuiet(session, pending, pauses, limits);
  const finished = createFinished(session, live, (row) => lineLog.drop(row));
  const owned = createOwned(session);
  const holds = createHolds(session, (seqs) => [...live.many(seqs), ...finished.many(seqs)]);
  const { scan } = createScan(session, {
    live: (seqs) => live.many(seqs),
    finished: (seqs) => finished.many(seqs),
    heldSeqs: () => claims.heldSeqs(),
    expiredSeqs: (now) => pending.expiredSeqs(now),
  });
  const knownLimits = session.remember(() => limits.limits());
  const knownPauses = session.remember(() => pauses.paused());
  const fences = createFences(session);
  const eventLog = createEventLog(session, () => openRun.untold());
  const openRun: OpenRun = createOpenRun(session, {
    ids,
    isBounded: (queue) => (knownLimits.get().get(queue)?.maxPending ?? null) !== null,
    addEvents: (at, runs) => eventLog.addEvents(at, runs),
  });
  const parts: readonly StepPart[] = [claims, held, ids, lineLog, tombstones, owned, openRun, ...session.parts];

  return {
    ...live,
    ...pending,
    ...claims,
    ...finished,
    ...pauses,
    ...limits,
    ...createMatches(live, () => claims.heldSeqs()),
    ...createDueCount(session),
    ...createTally(session),
    ...eventLog,
    ...createTerm(session),
    ...createCards(session),
    ...createTotals(session),
    ...fences,
    limits: () => knownLimits.get(),
    setLimits(queue, wanted) {
      limits.setLimits(queue, wanted);
      knownLimits.forget();
    },
    paused: () => knownPauses.get(),
    setPaused(word, paused) {
      pauses.setPaused(word, paused);
      knownPauses.forget();
    },
    isKnown: (id) => ids.isKnown(id),
    expectNew: (expected) => ids.expect(expected),
    expectHeld: (endings) => held.expect(endings),
    seqHeld: (id, epoch) => held.seqOf(id, epoch),
    add(row) {
      live.add(row);
      ids.added(row.id);
      openRun.added(row);
    },
    save(row) {
      live.save(row);
      held.changed(row);
    },
    put(row, place) {
      pending.put(row, place);
      if (row.ownedBy !== null) owned.follow(row);
    },
    take(row) {
      pending.take(row);
      if (row.ownedBy !== null) owned.follow(row);
    },
    finish(row) {
      finished.finish(row);
      if (row.ownedBy !== null) owned.ended(row);
    },
    drop(row) {
      finished.drop(row);
      if (row.ownedBy !== null) owned.drop(row);
      if (row.heldUntil !== null) holds.drop(row);
    },
    hold(row) {
      if (row.state === null) {
        live.save(row);
        held.changed(row);
        if (row.ownedBy !== null) owned.follow(row);
      }
      holds.write(row);
    },
    heldPast: (now, limit) => holds.heldPast(now, limit),
    heldAfter: (after, limit) => holds.heldAfter(after, limit),
    owning: (known) => owned.owning(known),
    ownedCount: (id) => owned.ownedCount(id),
    dueThings: (now, after, limit) => owned.dueThings(now, after, limit),
    addClaim(record, rows) {
      claims.addClaim(record, rows);
      held.remember(record.epoch, rows);
    },
    dropClaim(record) {
      claims.dropClaim(record);
      held.over(record.epoch);
    },
    nextSeq: () => session.counts.advance('seq', 1),
    nextEpoch: (least) => session.counts.raise('epoch', least),
    lastEpoch: () => session.counts.read('epoch'),
    rewrite() {
      added.run();
      taken.run();
    },
    scan,
    addLines: (row, lines) => lineLog.addLines(row, lines),
    lines: (id) => lineLog.lines(id),
    tombstone: (id) => tombstones.tombstone(id),
    addTombstone: (tombstone) => tombstones.addTombstone(tombstone),
    begin(writes) {
      for (const part of parts) part.begin();
      if (!session.isUnchanged()) for (const part of parts) part.reread?.();
      openRun.account(writes);
    },
    flush() {
      for (const part of parts) part.flush?.();
    },
    forget() {
      for (const part of parts) {
        part.begin();
        part.reread?.();
        part.forget?.();
      }
    },
    join: (job, now) => openRun.join(job, now),
    quiet: (request, at) => quiet.look(request, at),
  };
}

/** An idle worker asks often: one statement for everything but the lanes, outside of any transaction. */
function createQuiet(
  { names, sql }: Session,
  pending: Pending,
  pauses: Pick<Tables, 'paused'>,
  limits: Pick<Tables, 'limits' | 'running' | 'starts'>,
) {
  const table = names('pending');
  const deadlines = sql(
    `select exists (select 1 from ${names('claims')} where due_at <= ?), ` +
      `exists (select 1 from ${table} indexed by ${names('pending_expiry')} where expires_at <= ?), ` +
      `(select due_at from ${table} indexed by ${names('pending_later')} where place = 1 order by due_at limit 1), ` +
      `exists (select 1 from ${names('queues')}), exists (select 1 from ${names('limits')})`,
  );
  const unpaused: ReadonlySet<string> = new Set();
  const unlimited: ReadonlyMap<string, Allowance> = new Map();
  return {
    look(request: ClaimRequest, now: number): { readonly nextDueAt: number | null } | null {
      const [lapsed, expired, nextDueAt, anyPaused, anyLimits] = deadlines.get(now, now) as [
        number,
        number,
        number | null,
        number,
        number,
      ];
      if (lapsed || expired || (nextDueAt !== null && nextDueAt <= now)) return null;
      const paused = anyPaused ? pauses.paused() : unpaused;
      const allowances = anyLimits ? allowancesOf(limits, now, request.queues) : unlimited;
      if (!pending.nothingReady(request, paused, roomIn(paused, allowances))) return null;
      // The claim itself writes that down.
      if ([...allowances.values()].some(({ clockSet }) => clockSet)) return null;
      return { nextDueAt: earlier(nextDueAt, firstOpening(allowances)) };
    },
  };
}

function createTally({ counts }: Session): Pick<Tables, 'tallies' | 'count'> {
  return {
    *tallies() {
      for (const { name, part, n } of counts.all(tallyStates)) yield { queue: part, state: name as TallyState, n };
    },
    count: (queue, state, delta) => counts.add(state, queue, delta),
  };
}

function createPauses({ names, sql }: Session): Pick<Tables, 'paused' | 'setPaused'> {
  const table = names('queues');
  const select = sql(`select name from ${table}`);
  const insert = sql(`insert or ignore into ${table} (name) values (?)`);
  const remove = sql(`delete from ${table} where name = ?`);
  return {
    paused: () => new Set(select.all().map(([name]) => name as string)),
    setPaused: (word, paused) => void (paused ? insert : remove).run(word),
  };
}
