/** The three places of pending jobs, and the turns of exclusive keys. */
import type { ClaimRequest } from '../../core/store.js';
import { type Pauses, queuesAwake } from '../../core/pauses.js';
import { Place, type Row, type Tables } from '../local/tables.js';
import { limited, type Values } from './driver.js';
import { createLanes } from './lanes.js';
import type { Live } from './live.js';
import { createOldestDue } from './oldest.js';
import { liveColumns } from './rows.js';
import { takingFromRuns } from './runs.js';
import type { Session } from './session.js';

type Part = Pick<
  Tables,
  | 'put'
  | 'take'
  | 'ready'
  | 'due'
  | 'nextDueAt'
  | 'expired'
  | 'expiredIn'
  | 'slotOwner'
  | 'turnOf'
  | 'setTurn'
  | 'clearTurn'
  | 'firstBehind'
  | 'untold'
  | 'oldestDue'
  | 'dueLanes'
>;

export interface Pending extends Part {
  /** Whether no job is ready in these lanes. */
  nothingReady(request: ClaimRequest, paused: Pauses, room: ReadonlyMap<string, number>): boolean;
  /** Numbers of the pending rows past their expiresAt. */
  expiredSeqs(now: number): number[];
}

export function createPending(session: Session, live: Live): Pending {
  const { names, sql, rows } = session;
  const table = names('pending');
  // Which index is read is said, not left to the planner: it would rather sort all of a place by the primary key.
  const by = (index: string): string => `indexed by ${names(index)}`;
  const join = (index: string): string =>
    `select ${liveColumns}, p.place from ${table} p ${by(index)} cross join ${names('jobs')} j on j.seq = p.seq`;
  const key = 'place, type, queue, priority, due_at, seq, last';
  const insertPlain = sql(`insert into ${table} (${key}) values (?, ?, ?, ?, ?, ?, ?)`);
  const insert = sql(`insert into ${table} (${key}, slot, xkey, expires_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  // The place is written out: SQLite compares a parameter with the partial indices and then compiles anew at each run.
  const [removeLater, removeBehind] = [Place.later, Place.behind].map((place) =>
    sql(
      `delete from ${table} where place = ${place} ` +
        'and type = ? and queue = ? and priority = ? and due_at = ? and seq = ?',
    ),
  );
  const { takeOne } = takingFromRuns(session, sql);
  const due = sql(`${join('pending_later')} where p.place = 1 and p.due_at <= ? order by p.due_at, p.seq ${limited}`);
  const nextDue = sql(`select due_at from ${table} ${by('pending_later')} where place = 1 order by due_at limit 1`);
  const expired = sql(`${join('pending_expiry')} where p.expires_at <= ? order by p.expires_at, p.seq ${limited}`);
  const expiredSeqs = sql(`select seq from ${table} ${by('pending_expiry')} where expires_at <= ?`);
  // Those of other queues are passed over in the index; they are swept within seconds, so they are few.
  const expiredIn = sql(
    `select count(*) from (select 1 from ${table} ${by('pending_expiry')} where expires_at <= ? and queue = ? ${limited})`,
  );
  const ofSlot = sql(`${join('pending_slot')} where p.type = ? and p.slot = ?`);
  const behind = sql(
    `${join('pending_behind')} where p.place = 2 and p.type = ? and p.queue = ? and p.xkey = ? ` +
      'order by p.priority, p.due_at, p.seq limit 1',
  );
  const expiredByQueue = sql(
    `select queue, count(*), sum(place = 1) from ${table} ${by('pending_expiry')} where expires_at <= ? group by queue`,
  );
  const dueByQueue = sql(
    `select queue, count(*) from ${table} ${by('pending_later')} where place = 1 and due_at <= ? ` +
      'and (expires_at is null or expires_at > ?) group by queue',
  );
  const lanes = createLanes(session, live);
  const turns = createTurns(session);
  const rowIn = (values: Values | undefined): Row | undefined => values && session.live(values);

  return {
    ...turns,
    ...createOldestDue(session),
    put(row, place) {
      const known = live.sure(row);
      if (known.fresh) {
        known.expiresAt = row.expiresAt;
        row.place = place;
        return;
      }
      live.follow(row);
      row.place = place;
      const { type, queue, priority, dueAt, seq, slot, exclusiveKey, expiresAt } = row;
      known.expiresAt = expiresAt;
      if (slot === null && exclusiveKey === null && expiresAt === null) {
        insertPlain.run(place, type, queue, priority, dueAt, seq, seq);
      } else {
        insert.run(place, type, queue, priority, dueAt, seq, seq, slot, exclusiveKey, expiresAt);
      }
      known.lane = null;
      session.arrivals += 1;
    },
    take(row) {
      const known = rows.get(row.seq)!;
      if (row.place === Place.ready) {
        if (known.lane) lanes.take(known);
        else takeOne(known);
      } else {
        const remove = row.place === Place.later ? removeLater : removeBehind;
        remove!.run(row.type, row.queue, known.priority, known.dueAt, row.seq);
      }
      row.place = Place.claimed;
    },
    ready: (types, queues, room, limit) => lanes.read(lanes.of(types, queues, room), room, limit),
    due: (now, limit) => due.all(now, limit).map((values) => session.live(values)),
    nextDueAt: () => (nextDue.get()?.[0] ?? null) as number | null,
    expired: (now, limit) => expired.all(now, limit).map((values) => session.live(values)),
    expiredIn: (queue, now, limit) => expiredIn.get(now, queue, limit)?.[0] as number,
    expiredSeqs: (now) => expiredSeqs.all(now).map(([seq]) => seq as number),
    slotOwner: (type, slot) => rowIn(ofSlot.get(type, slot)),
    firstBehind: (row) => rowIn(behind.get(row.type, row.queue, row.exclusiveKey)),
    *untold(now) {
      for (const [queue, n, later] of expiredByQueue.all(now)) {
        yield { queue: queue as string, expired: n as number, expiredLater: later as number, due: 0 };
      }
      for (const [queue, n] of dueByQueue.all(now, now)) {
        yield { queue: queue as string, expired: 0, expiredLater: 0, due: n as number };
      }
    },
    nothingReady: ({ types, queues }, paused, room) => lanes.empty(types, queuesAwake(queues, paused), room),
  };
}

function createTurns({ names, sql }: Session): Pick<Tables, 'turnOf' | 'setTurn' | 'clearTurn'> {
  const table = names('turns');
  const select = sql(`select seq from ${table} where type = ? and queue = ? and xkey = ?`);
  const insert = sql(`insert or replace into ${table} (type, queue, xkey, seq) values (?, ?, ?, ?)`);
  const remove = sql(`delete from ${table} where type = ? and queue = ? and xkey = ?`);
  return {
    turnOf: (row) => select.get(row.type, row.queue, row.exclusiveKey)?.[0] as number | undefined,
    setTurn: (row) => void insert.run(row.type, row.queue, row.exclusiveKey, row.seq),
    clearTurn: (row) => void remove.run(row.type, row.queue, row.exclusiveKey),
  };
}
