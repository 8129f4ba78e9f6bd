/** The tables in memory: maps, and heaps whose stale entries are skipped. The shortest code that keeps the contract. */
import type { JobFilter, LogLine } from '../../core/store.js';
import { bounds, type ClaimRecord, type Row, type Tables, type TallyState, type Tombstone } from '../local/tables.js';
import { createEventLog } from './events.js';
import { createFinished } from './finished.js';
import { createOrdered, type Ordered } from './ordered.js';
import { createPending } from './pending.js';

export function createTables(): Tables {
  const live = new Map<string, Row>();
  const liveBySeq = new Map<number, Row>();
  const isLive = (row: Row): boolean => liveBySeq.has(row.seq);
  const stored = createOrdered<Row>((row) => isLive(row) || finished.has(row));
  const byType = new Map<string, Ordered<Row>>();
  const byKey = new Map<string, Set<Row>>();
  const pending = createPending();
  const finished = createFinished();
  const turns = new Map<string, number>();
  const claims = new Map<number, ClaimRecord>();
  const tally = new Map<string, { queue: string; state: TallyState; n: number }>();
  const paused = new Set<string>();
  const events = createEventLog();
  const lines = new Map<string, LogLine[]>();
  const tombstones = new Map<string, Tombstone>();
  let seq = 0;
  let epoch = 0;

  const keyOf = (row: { type: string; key: string | null }): string => `${row.type}\0${row.key}`;
  const turnKey = (row: Row): string => `${row.type}\0${row.queue}\0${row.exclusiveKey}`;
  const typeOrder = (type: string): Ordered<Row> => {
    const known = byType.get(type) ?? createOrdered<Row>(isLive);
    byType.set(type, known);
    return known;
  };
  function forgetLive(row: Row): void {
    live.delete(row.id);
    liveBySeq.delete(row.seq);
    typeOrder(row.type).left();
    const sameKey = row.key === null ? undefined : byKey.get(keyOf(row));
    sameKey?.delete(row);
    if (sameKey?.size === 0) byKey.delete(keyOf(row));
  }

  return {
    nextSeq: () => ++seq,
    nextEpoch: () => ++epoch,

    live: (id) => live.get(id),
    liveAt: (at) => liveBySeq.get(at),
    add(row) {
      live.set(row.id, row);
      liveBySeq.set(row.seq, row);
      stored.add(row);
      typeOrder(row.type).add(row);
      if (row.key === null) return;
      const sameKey = byKey.get(keyOf(row)) ?? new Set();
      byKey.set(keyOf(row), sameKey.add(row));
    },
    save: (row) => pending.expiryChanged(row),
    matches: (type, key) =>
      key === null
        ? typeOrder(type).newestFirst(Number.MAX_SAFE_INTEGER)
        : [...(byKey.get(keyOf({ type, key })) ?? [])].reverse(),

    put: (row, place) => pending.put(row, place),
    take: (row) => pending.take(row),
    ready: (types, queues, without, limit) => pending.ready(types, queues, without, limit),
    due: (now, limit) => pending.due(now, limit),
    nextDueAt: () => pending.nextDueAt(),
    expired: (now, limit) => pending.expired(now, limit),
    slotOwner: (type, slot) => pending.slotOwner(type, slot),
    firstBehind: (row) => pending.firstBehind(row),

    turnOf: (row) => turns.get(turnKey(row)),
    setTurn: (row) => void turns.set(turnKey(row), row.seq),
    clearTurn: (row) => void turns.delete(turnKey(row)),

    claim: (at) => claims.get(at),
    addClaim: (record) => void claims.set(record.epoch, record),
    saveClaim: () => undefined,
    dropClaim: (record) => void claims.delete(record.epoch),
    lapsedClaims(now, limit) {
      const lapsed = [...claims.values()].filter((record) => record.dueAt <= now);
      return lapsed.sort((a, b) => a.dueAt - b.dueAt || a.epoch - b.epoch).slice(0, limit);
    },
    claimOf(row) {
      for (const record of claims.values())
        if (row.epoch < record.epoch && record.seqs.includes(row.seq)) return record;
      return undefined;
    },

    finished: (id) => finished.get(id),
    finish(row) {
      forgetLive(row);
      finished.add(row);
    },
    drop(row) {
      if (row.state === null) forgetLive(row);
      else finished.remove(row);
      stored.left();
      lines.delete(row.id);
    },
    overAge: (now, rule, limit) => finished.overAge(now, rule, limit),
    countOverAge: (now, rule) => finished.overAge(now, rule, Number.POSITIVE_INFINITY).length,
    overCount: (limit) => finished.overCount(limit),
    oldestFinished: (limit) => finished.oldest(limit),
    storedTotal: () => live.size + finished.size,

    scan(filter, beforeSeq, limit) {
      const rows: Row[] = [];
      for (const row of candidates(filter, beforeSeq)) {
        if (rows.length === limit) break;
        if (passes(row, filter)) rows.push(row);
      }
      return rows;
    },
    tallies: () => tally.values(),
    count(queue, state, delta) {
      const name = `${queue}\0${state}`;
      const entry = tally.get(name) ?? { queue, state, n: 0 };
      entry.n += delta;
      if (entry.n === 0) tally.delete(name);
      else tally.set(name, entry);
    },
    untold: (now) => pending.untold(now),
    *stalledByQueue(now) {
      for (const record of claims.values()) {
        if (record.dueAt > now) continue;
        for (const at of record.seqs) {
          const row = liveBySeq.get(at);
          if (row && row.epoch < record.epoch) yield { queue: row.queue, n: 1 };
        }
      }
    },
    oldestDue: (now) => pending.oldestDue(now),

    paused: () => paused,
    setPaused: (queue, on) => void (on ? paused.add(queue) : paused.delete(queue)),
    clearPauses: () => paused.clear(),

    addEvents: (at, list) => events.add(at, list),
    events: (after, limit) => events.read(after, limit),
    addLines: (row, added) => void lines.set(row.id, [...(lines.get(row.id) ?? []), ...added]),
    lines: (id) => lines.get(id) ?? [],
    tombstone: (id) => tombstones.get(id),
    addTombstone(tombstone) {
      tombstones.delete(tombstone.id);
      tombstones.set(tombstone.id, tombstone);
      if (tombstones.size > bounds.tombstonesMax) tombstones.delete(tombstones.keys().next().value!);
    },
  };

  function candidates(filter: JobFilter, beforeSeq: number): Iterable<Row> {
    if (filter.ids === null) return stored.newestFirst(beforeSeq);
    const rows = [...new Set(filter.ids)].map((id) => live.get(id) ?? finished.get(id));
    return rows.filter((row): row is Row => row !== undefined && row.seq < beforeSeq).sort((a, b) => b.seq - a.seq);
  }
}

function passes(row: Row, { states, types, queues, subject, key, source, before, after }: JobFilter): boolean {
  const live = row.state === null;
  if (
    states !== null &&
    !(live ? states.some((s) => s === 'pending' || s === 'processing' || s === 'expired') : states.includes(row.state!))
  )
    return false;
  if (types !== null && !types.includes(row.type)) return false;
  if (queues !== null && !queues.includes(row.queue)) return false;
  if (subject !== null && row.subject !== subject) return false;
  if (key !== null && row.key !== key) return false;
  if (source !== null && row.source !== source) return false;
  return (before === null || row.createdAt < before) && (after === null || row.createdAt > after);
}
