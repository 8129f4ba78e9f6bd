// A store of one JSON file, for one process: short enough to read, and too slow for more than a few thousand jobs.
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import * as store from 'lastout/store';
import { type ClaimRecord, type Hint, Place, type Position, type Row } from 'lastout/store';

interface State extends store.SideState {
  identity: string;
  seq: number;
  epoch: number;
  /** Live and finished, in the order of insertion. */
  rows: Row[];
  claims: ClaimRecord[];
  readonly turns: Map<string, number>;
  events: { seq: number; records: store.StepRecord[] };
  tombstones: store.Tombstone[];
}

function emptyState(identity: string): State {
  const lists = { rows: [], claims: [], turns: new Map(), events: { seq: 0, records: [] }, tombstones: [] };
  return { ...store.emptySideState(), ...lists, identity, seq: 0, epoch: 0 };
}

const toJson = (_: string, value: unknown): unknown =>
  value instanceof Map ? { $map: [...value] } : value instanceof Set ? { $set: [...value] } : value;
const fromJson = (_: string, value: { $map?: []; $set?: [] } | null): unknown =>
  value?.$map ? new Map(value.$map) : value?.$set ? new Set(value.$set) : value;
const textOf = (s: State): string => JSON.stringify({ ...s, rows: s.rows.map(store.wholeRow) }, toJson);
const stateIn = (text: string): State => JSON.parse(text, fromJson) as State;

export function jsonStore(file: string): store.StoreFactory {
  const texts = new Map(existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as [string, string][]) : []);
  const states = new Map([...texts].map(([namespace, text]) => [namespace, stateIn(text)]));
  const listeners = new Set<(hint: Hint) => void>();

  function save(namespace: string): void {
    texts.set(namespace, textOf(states.get(namespace)!));
    // A file that is replaced whole is never seen half written.
    writeFileSync(`${file}.new`, JSON.stringify([...texts]));
    renameSync(`${file}.new`, file);
  }

  return {
    engine: 'json',
    async open(context) {
      const { namespace, system, identity } = context;
      if (!states.has(namespace)) states.set(namespace, emptyState(system.id()));
      const stateNow = (): State => states.get(namespace)!;
      if (identity === 'new') stateNow().identity = system.id();
      save(namespace);
      const engine: store.LocalEngine = {
        engine: 'json',
        traits: { isVolatile: false, insertsAbreast: 1, leastSweep: 50 },
        durability: 'os',
        async transact(work) {
          try {
            const answer = work(tablesOn(stateNow()));
            save(namespace);
            return answer;
          } catch (error) {
            states.set(namespace, stateIn(texts.get(namespace)!)); // all or nothing
            throw error;
          }
        },
        reading: async (work) => work(tablesOn(stateNow())),
        inside: null,
        listeners,
        identity: async () => stateNow().identity,
        check: async () => [],
        close: async () => undefined,
      };
      return store.openLocal(engine, context);
    },
  };
}

function tablesOn(state: State): store.Tables {
  return { ...store.sideTables(state), ...jobs(state), ...claims(state), ...finished(state) };
}

type Order = (a: Row, b: Row) => number;
const bySeq: Order = (a, b) => a.seq - b.seq;
const byDue: Order = (a, b) => a.dueAt - b.dueAt || bySeq(a, b);
const inOrder: Order = (a, b) => a.priority - b.priority || byDue(a, b);
const byEnd: Order = (a, b) => a.completedAt! - b.completedAt! || bySeq(a, b);
const newest: Order = (a, b) => bySeq(b, a);
const latest: Order = (a, b) => byDue(b, a);

function some(rows: readonly Row[], test: (row: Row) => boolean, order = bySeq, limit = Infinity): Row[] {
  return rows.filter(test).sort(order).slice(0, limit);
}

/** The first rows after a position in the order of an instant. */
function after(rows: readonly Row[], at: (row: Row) => number, from: Position | null, limit: number): Row[] {
  const isAfter = (row: Row): boolean =>
    from === null || at(row) > from.at || (at(row) === from.at && row.seq > from.seq);
  return some(rows, isAfter, (a, b) => at(a) - at(b) || bySeq(a, b), limit);
}

const isLive = (row: Row): boolean => row.state === null;
const isPending = (row: Row): boolean => isLive(row) && row.place !== Place.claimed;
const isExpired = (row: Row, now: number): boolean => isPending(row) && (row.expiresAt ?? Infinity) <= now;
const isDue = (row: Row, now: number): boolean => isPending(row) && row.dueAt <= now && !isExpired(row, now);
const isAt = (row: Row, place: Row['place']): boolean => isLive(row) && row.place === place;
const isLater = (row: Row): boolean => isAt(row, Place.later);
const isIn = (row: Row, types: readonly string[], queues: readonly string[] | null): boolean =>
  types.includes(row.type) && (queues === null || queues.includes(row.queue));
const turnKey = (row: Row): string => JSON.stringify([row.type, row.queue, row.exclusiveKey]);

function jobs(s: State) {
  const dueRows = (now: number): Row[] => some(s.rows, (row) => isDue(row, now), latest);
  return {
    nextSeq: () => (s.seq += 1),
    nextEpoch: (least) => (s.epoch = Math.max(s.epoch + 1, least)),
    lastEpoch: () => s.epoch,
    isKnown: (id) => [...s.rows, ...s.tombstones].some((one) => one.id === id),
    live: (id) => s.rows.find((row) => row.id === id && isLive(row)),
    liveAt: (seq) => s.rows.find((row) => row.seq === seq && isLive(row)),
    add: (row) => void s.rows.push(row),
    save: () => undefined, // rows are changed in place
    matches: (type, key) =>
      some(s.rows, (row) => isLive(row) && row.type === type && (key === null || row.key === key), newest),
    put: (row, place) => void (row.place = place),
    take: (row) => void (row.place = Place.claimed),
    ready(types, queues, room, limit) {
      const left = new Map(room);
      const ready = some(s.rows, (row) => isAt(row, Place.ready) && isIn(row, types, queues), inOrder);
      const take = (queue: string, n = left.get(queue) ?? Infinity): boolean => left.set(queue, n - 1) && n > 0;
      return ready.filter(({ queue }) => take(queue)).slice(0, limit);
    },
    due: (now, limit) => some(s.rows, (row) => isLater(row) && row.dueAt <= now, byDue, limit),
    nextDueAt: () => some(s.rows, isLater, byDue)[0]?.dueAt ?? null,
    expired: (now, limit) =>
      some(
        s.rows,
        (row) => isExpired(row, now),
        (a, b) => a.expiresAt! - b.expiresAt! || bySeq(a, b),
        limit,
      ),
    slotOwner: (type, slot) => s.rows.find((row) => isPending(row) && row.type === type && row.slot === slot),
    turnOf: (row) => s.turns.get(turnKey(row)),
    setTurn: (row) => void s.turns.set(turnKey(row), row.seq),
    clearTurn: (row) => void s.turns.delete(turnKey(row)),
    firstBehind: (of) => some(s.rows, (row) => isAt(row, Place.behind) && turnKey(row) === turnKey(of), inOrder)[0],
    untold: (now) =>
      some(s.rows, (row) => isExpired(row, now) || (isLater(row) && row.dueAt <= now)).map((row) => {
        const expired = +isExpired(row, now);
        return { queue: row.queue, expired, expiredLater: +isLater(row) && expired, due: 1 - expired };
      }),
    countDue: (types, queues, now, limit) =>
      some(s.rows, (row) => isDue(row, now) && isIn(row, types, queues), bySeq, limit).length,
    expiredIn: (queue, now, limit) =>
      some(s.rows, (row) => isExpired(row, now) && row.queue === queue, bySeq, limit).length,
    oldestDue: dueRows,
    dueLanes: dueRows,
    addEvents(at, runs) {
      s.events.records.push({ seq: (s.events.seq += 1), at, runs });
      if (s.events.records.length > store.bounds.eventRecordsMax) s.events.records.shift();
    },
    events: (from, limit) => store.eventPageOf(s.events, from, limit),
    tombstone: (id) => s.tombstones.find((tombstone) => tombstone.id === id),
    addTombstone(added) {
      const others = s.tombstones.filter(({ id }) => id !== added.id);
      s.tombstones = [...others, added].slice(-store.bounds.tombstonesMax);
    },
    scan({ filter, before, limit }) {
      const isAsked = (row: Row): boolean => row.seq < before && (filter.ids?.includes(row.id) ?? true);
      const rows = some(s.rows, (row) => isAsked(row) && store.passes(row, filter), newest, limit);
      return { rows, examined: rows.length, next: rows.length === limit ? rows.at(-1)!.seq : null };
    },
  } satisfies Partial<store.Tables>;
}

function claims(s: State) {
  const heldBy = ({ epoch, seqs }: ClaimRecord): Row[] =>
    some(s.rows, (row) => isLive(row) && seqs.includes(row.seq) && row.epoch < epoch);
  const lapsed = (now: number): ClaimRecord[] =>
    s.claims.filter(({ dueAt }) => dueAt <= now).sort((a, b) => a.dueAt - b.dueAt);
  return {
    claim: (epoch) => s.claims.find((record) => record.epoch === epoch),
    addClaim: (record) => void s.claims.push(record),
    names: ({ seqs }, { seq }) => seqs.includes(seq),
    saveClaim: () => undefined,
    dropClaim: (over) => void (s.claims = s.claims.filter(({ epoch }) => epoch !== over.epoch)),
    lapsedClaims: (now, limit) => lapsed(now).slice(0, limit),
    claimsOf: (owner) => s.claims.filter((record) => record.owner === owner),
    claimOf: (row) => s.claims.find(({ epoch, seqs }) => epoch > row.epoch && seqs.includes(row.seq)),
    stalledByQueue: (now) =>
      lapsed(now)
        .flatMap(heldBy)
        .map(({ queue }) => ({ queue, n: 1 })),
    running: (queues) =>
      store.runningIn(s.claims, (seq) => s.rows.find((row) => row.seq === seq && isLive(row)), queues),
  } satisfies Partial<store.Tables>;
}

/** What is held stands in no order of retention. */
function finished(s: State) {
  const done = (test: (row: Row) => boolean = () => true, limit?: number): Row[] =>
    some(s.rows, (row) => !isLive(row) && row.heldUntil === null && test(row), byEnd, limit);
  const goesAt = ({ completedAt, keepMs }: Row): number => completedAt! + keepMs!;
  const isOverAge = (row: Row, now: number, { retentionMs, useCompletedTime }: store.AgeRule): boolean => {
    if (typeof row.keepMs === 'number') return goesAt(row) < now;
    return row.keepMs === undefined && (useCompletedTime ? row.completedAt! : row.createdAt) + retentionMs < now;
  };
  const ranked = ({ type, state }: Pick<Row, 'type' | 'state'>): Row[] =>
    done((row) => row.type === type && row.state === state).reverse();
  const held = (until = Infinity): Row[] => some(s.rows, (row) => row.heldUntil !== null && row.heldUntil <= until);
  return {
    finished: (id) => s.rows.find((row) => row.id === id && !isLive(row)),
    finish: () => undefined, // its state says so
    retried: () => undefined,
    hold: () => undefined,
    drop(row) {
      s.rows = s.rows.filter(({ seq }) => seq !== row.seq);
      s.lines.delete(row.id);
    },
    overAge: (now, rule, limit) => done((row) => isOverAge(row, now, rule), limit),
    countOverAge: (now, rule) => done((row) => isOverAge(row, now, rule)).length,
    overCount: (limit) => done((row) => ranked(row).indexOf(row) >= (row.keepCount ?? Infinity), limit),
    oldestFinished: (limit) => done(undefined, limit),
    finishedAfter(order, from, limit) {
      if (order.by === 'rank') {
        const isOlder = (row: Row): boolean => !from || byEnd(row, { ...row, completedAt: from.at, seq: from.seq }) < 0;
        return ranked(order).filter(isOlder).slice(0, limit);
      }
      if (order.by === 'ended') return after(done(), (row) => row.completedAt!, from, limit);
      const isOwn = order.by === 'goes';
      const at = isOwn ? goesAt : (row: Row) => (order.by === 'created' ? row.createdAt : row.completedAt!);
      const hasRule = (row: Row): boolean => (isOwn ? typeof row.keepMs === 'number' : row.keepMs === undefined);
      const rows = done((row) => hasRule(row) && at(row) < order.before);
      return after(rows, at, from, limit);
    },
    countGroupAfter(last) {
      const nameOf = ({ type, state }: Pick<Row, 'type' | 'state'>): string => `${type}\0${state}`;
      const groups = done((row) => row.keepCount !== null && (!last || nameOf(row) > nameOf(last)));
      const first = groups.sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1))[0];
      return first ? { type: first.type, state: first.state! } : null;
    },
    storedTotal: () => s.rows.filter((row) => !isLive(row) || row.ownedBy === null).length,
    heldPast: (now, limit) => after(held(now), (row) => row.heldUntil!, null, limit),
    heldAfter: (from, limit) => after(held(), (row) => row.heldUntil!, from, limit),
    owning: (ids) => new Set(ids.filter((id) => s.rows.some((row) => isLive(row) && row.ownedBy === id))),
    ownedCount: (id) => s.rows.filter((row) => isLive(row) && row.ownedBy === id).length,
    dueThings(now, from, limit) {
      const isThing = (row: Row): boolean => row.ownedBy !== null && row.queue === 'lastout' && row.heldUntil === null;
      const things = some(s.rows, (row) => isPending(row) && isThing(row) && row.dueAt <= now);
      return after(things, (row) => row.dueAt, from, limit);
    },
  } satisfies Partial<store.Tables>;
}
