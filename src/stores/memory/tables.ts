/** The tables in memory: maps, and lines whose stale entries are skipped. */
import { runningIn } from '../local/limits.js';
import { emptySideState, sideTables } from '../local/side-tables.js';
import { bounds, type ClaimRecord, type Row, type Tables, type Tombstone } from '../local/tables.js';
import { createEventLog } from './events.js';
import { createFinished } from './finished.js';
import { RowsById } from './ids.js';
import { createInTurn } from './in-turn.js';
import type { Ordered } from './ordered.js';
import { createOwned } from './owned.js';
import { createPending } from './pending.js';
import { createStored, enter, leave } from './stored.js';

export function createTables(): Tables {
  /** Live and finished. */
  const rows = new RowsById();
  const liveByType = new Map<string, Ordered<Row>>();
  const liveByKey = new Map<string, Ordered<Row>>();
  const pending = createPending();
  const finished = createFinished();
  const owned = createOwned();
  const stored = createStored({
    held: heldRows,
    expired: (now) => pending.expiredRows(now),
    byIds: (ids) => [...new Set(ids)].map((id) => rows.get(id)).filter((row) => row !== undefined),
  });
  const turns = new Map<string, number>();
  const claims = new Map<number, ClaimRecord>();
  const inTurn = createInTurn();
  const side = emptySideState();
  const events = createEventLog();
  const tombstones = new Map<string, Tombstone>();
  /** It goes on where it stopped: a new one would step over every entry that was deleted before the first. */
  const oldestTombstones = tombstones.keys();
  let seq = 0;
  let epoch = 0;

  const keyOf = (row: { type: string; key: string | null }): string => `${row.type}\0${row.key}`;
  const turnKey = (row: Row): string => `${row.type}\0${row.queue}\0${row.exclusiveKey}`;
  function forgetLive(row: Row): void {
    row.claim = undefined;
    owned.leave(row);
    leave(liveByType, row.type, row);
    if (row.key !== null) leave(liveByKey, keyOf(row), row);
  }
  function* heldRows(): Generator<Row> {
    for (const { epoch: held, seqs } of claims.values()) {
      for (const at of seqs) {
        const row = stored.liveAt(at);
        if (row && row.epoch < held) yield row;
      }
    }
  }

  return {
    ...sideTables(side),
    nextSeq: () => ++seq,
    nextEpoch: (least) => (epoch = Math.max(epoch + 1, least)),
    lastEpoch: () => epoch,

    isKnown: (id) => rows.mayBeKnown(id) && (rows.get(id) !== undefined || tombstones.has(id)),
    live(id) {
      const row = rows.get(id);
      return row?.state === null ? row : undefined;
    },
    liveAt: (at) => stored.liveAt(at),
    add(row) {
      rows.add(row);
      stored.add(row);
      owned.add(row);
      enter(liveByType, row.type, row);
      if (row.key !== null) enter(liveByKey, keyOf(row), row);
    },
    save: (row) => pending.expiryChanged(row),
    matches(type, key) {
      const list = key === null ? liveByType.get(type) : liveByKey.get(keyOf({ type, key }));
      return list?.newestFirst(Number.MAX_SAFE_INTEGER) ?? [];
    },

    put(row, place) {
      pending.put(row, place);
      owned.follow(row);
    },
    take(row) {
      pending.take(row);
      owned.follow(row);
    },
    ready: (types, queues, room, limit) => pending.ready(types, queues, room, limit),
    due: (now, limit) => pending.due(now, limit),
    nextDueAt: () => pending.nextDueAt(),
    expired: (now, limit) => pending.expired(now, limit),
    slotOwner: (type, slot) => pending.slotOwner(type, slot),
    firstBehind: (row) => pending.firstBehind(row),

    turnOf: (row) => turns.get(turnKey(row)),
    setTurn: (row) => void turns.set(turnKey(row), row.seq),
    clearTurn: (row) => void turns.delete(turnKey(row)),

    claim: (at) => claims.get(at),
    addClaim(record, taken) {
      claims.set(record.epoch, record);
      for (const row of taken) row.claim = record;
      inTurn.add(record, taken);
    },
    held: (record, id) => inTurn.ending(record, id),
    seqHeld: (id, at) => inTurn.beginning(at, id)?.seq,
    names: (record, row) => row.claim === record,
    saveClaim: () => undefined,
    dropClaim(record) {
      claims.delete(record.epoch);
      inTurn.drop(record);
    },
    lapsedClaims(now, limit) {
      const lapsed: ClaimRecord[] = [];
      for (const record of claims.values()) if (record.dueAt <= now) lapsed.push(record);
      return lapsed.sort((a, b) => a.dueAt - b.dueAt || a.epoch - b.epoch).slice(0, limit);
    },
    claimsOf: (owner) => [...claims.values()].filter((record) => record.owner === owner),
    claimOf: ({ claim, epoch: over }) => (claim && over < claim.epoch && claims.has(claim.epoch) ? claim : undefined),

    finished(id) {
      const row = rows.get(id);
      return row && row.state !== null ? row : undefined;
    },
    finish(row) {
      forgetLive(row);
      finished.add(row);
      stored.finish(row);
    },
    retried: () => undefined,
    drop(row) {
      rows.remove(row);
      if (row.state === null) forgetLive(row);
      else finished.remove(row);
      if (row.heldUntil !== null) owned.dropHold(row);
      stored.drop(row);
      side.lines.delete(row.id);
    },
    overAge: (now, rule, limit) => finished.overAge(now, rule, limit),
    countOverAge: (now, rule) => finished.countOverAge(now, rule),
    overCount: (limit) => finished.overCount(limit),
    oldestFinished: (limit) => finished.oldest(limit),
    finishedAfter: (order, after, limit) => finished.after(order, after, limit),
    countGroupAfter: (after) => finished.countGroupAfter(after),
    storedTotal: () => rows.size - owned.size,

    hold(row) {
      owned.hold(row);
      if (row.state !== null) finished.hold(row);
    },
    heldPast: (now, limit) => owned.heldPast(now, limit),
    heldAfter: (after, limit) => owned.heldAfter(after, limit),
    owning: (ids) => owned.owning(ids),
    ownedCount: (id) => owned.ownedCount(id),
    dueThings: (now, after, limit) => owned.dueThings(now, after, limit),

    scan: (request) => stored.scan(request),
    untold: (now) => pending.untold(now),
    countDue: (types, queues, now, limit) => pending.countDue(types, queues, now, limit),
    *stalledByQueue(now) {
      for (const record of claims.values()) {
        if (record.dueAt > now) continue;
        for (const at of record.seqs) {
          const row = stored.liveAt(at);
          if (row && row.epoch < record.epoch) yield { queue: row.queue, n: 1 };
        }
      }
    },
    oldestDue: (now) => pending.oldestDue(now),
    dueLanes: (now) => pending.dueLanes(now),

    running: (queues) => runningIn(claims.values(), (at) => stored.liveAt(at), queues),
    expiredIn: (queue, now, limit) => pending.expiredIn(queue, now, limit),

    addEvents: (at, list) => events.add(at, list),
    events: (after, limit) => events.read(after, limit),
    tombstone: (id) => tombstones.get(id),
    addTombstone(tombstone) {
      tombstones.delete(tombstone.id);
      tombstones.set(tombstone.id, tombstone);
      if (tombstones.size > bounds.tombstonesMax) tombstones.delete(oldestTombstones.next().value!);
    },
  };
}
