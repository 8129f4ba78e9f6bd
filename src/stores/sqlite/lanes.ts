/** Ready jobs by lane, each lane in the order priority, dueAt, seq: the order of the table itself. */
import type { Row } from '../local/tables.js';
import { Place } from '../local/tables.js';
import { limited, type Value, type Values } from './driver.js';
import type { Live } from './live.js';
import { mergePages } from './merge.js';
import { rowOf } from './rows.js';
import type { Known, LaneReading, Session } from './session.js';

interface Lane {
  readonly type: string;
  readonly queue: string;
}

export interface Lanes {
  of(types: readonly string[], queues: readonly string[] | null, room: ReadonlyMap<string, number>): Iterable<Lane>;
  empty(types: readonly string[], queues: readonly string[] | null, room: ReadonlyMap<string, number>): boolean;
  /** The first rows of all these lanes together. */
  read(lanes: Iterable<Lane>, room: ReadonlyMap<string, number>, limit: number): Row[];
  /** Takes a row out of the lane that it was read from. */
  take(known: Known): void;
}

export function createLanes(session: Session, live: Live): Lanes {
  const { names, sql, rows, policies } = session;
  const table = names('pending');
  const inLane = 'place = 0 and type = ? and queue = ?';
  const nextQueue = sql(`select queue from ${table} where place = 0 and type = ? and queue > ? order by queue limit 1`);
  const any = sql(`select 1 from ${table} where ${inLane} limit 1`);
  const page = sql(
    `select priority, due_at, seq from ${table} where ${inLane} and (priority, due_at, seq) > (?, ?, ?) ` +
      `order by priority, due_at, seq ${limited}`,
  );
  // Every value costs time on its way out: the lane is known, and what few jobs have comes as one.
  const odd = 'coalesce(j.subject, j.key, j.source, j.rest) is null';
  const pageOfRows = sql(
    'select j.seq, j.id, p.priority, p.due_at, j.created_at, j.max_attempts, j.policy, j.input, ' +
      `iif(${odd}, null, json_array(j.subject, j.key, j.source, j.rest)) as odd ` +
      `from ${table} p cross join ${names('jobs')} j on j.seq = p.seq ` +
      `where p.place = 0 and p.type = ? and p.queue = ? order by p.priority, p.due_at, p.seq ${limited}`,
  );

  /** One seek per name: nothing between two names is read. */
  function* namesAfter(next: (after: string) => Values | undefined): Generator<string> {
    for (let name = next('')?.[0]; name !== undefined; name = next(name as string)?.[0]) yield name as string;
  }
  const queuesOf = (type: string): Generator<string> => namesAfter((after) => nextQueue.get(type, after));

  function* of(
    types: readonly string[],
    queues: readonly string[] | null,
    room: ReadonlyMap<string, number>,
  ): Generator<Lane> {
    for (const type of new Set(types)) {
      for (const queue of queues === null ? queuesOf(type) : new Set(queues)) {
        if (room.get(queue) !== 0) yield { type, queue };
      }
    }
  }
  const readingOf = ({ type, queue }: Lane): LaneReading => ({ type, queue, arrivals: session.arrivals, taken: 0 });
  function found(known: Known, lane: LaneReading, placeInLane: number): Row {
    known.lane = lane;
    known.placeInLane = placeInLane;
    return known.row;
  }
  function readOne(lane: Lane, limit: number): Row[] {
    const { type, queue } = lane;
    const reading = readingOf(lane);
    return pageOfRows.all(type, queue, limit).map((values, index) => {
      const known = rows.get(values[0] as number);
      const sure = known && !known.guessed ? known : session.know(rowIn(lane, values), values[6] as number);
      return found(sure, reading, index);
    });
  }
  function rowIn({ type, queue }: Lane, values: Values): Row {
    const [seq, id, priority, dueAt, createdAt, maxAttempts, policy, input, odd] = values;
    const [subject, key, source, rest] = odd === null ? none : (JSON.parse(odd as string) as Value[]);
    const policyText = policies.bodyOf(policy as number);
    // biome-ignore format: the order of the columns
    return rowOf(seq, id, type, queue, priority, dueAt, createdAt, maxAttempts, policyText, input, subject, key, source, rest, Place.ready);
  }
  function readSeveral(lanes: readonly Lane[], room: ReadonlyMap<string, number>, limit: number): Row[] {
    const left = new Map([...room].map(([queue, n]) => [queue, { left: n }]));
    const rooms = lanes.map(({ queue }) => left.get(queue));
    const pages = lanes.map(({ type, queue }) => (after: Values | null, size: number) => {
      const [priority, dueAt, seq] = after ?? [Number.MIN_SAFE_INTEGER, 0, 0];
      return page.all(type, queue, priority!, dueAt!, seq!, size);
    });
    const seqs = mergePages(pages, inOrder, limit, rooms).map((values) => values[2] as number);
    live.many(seqs);
    const merged = seqs.map((seq) => rows.get(seq)!);
    for (const lane of lanes) {
      const reading = readingOf(lane);
      const ofLane = merged.filter(({ row }) => row.type === lane.type && row.queue === lane.queue);
      ofLane.forEach((known, index) => found(known, reading, index));
    }
    return merged.map(({ row }) => row);
  }

  return {
    of,
    empty(types, queues, room) {
      for (const { type, queue } of of(types, queues, room)) if (queues === null || any.get(type, queue)) return false;
      return true;
    },
    read(lanes, room, limit) {
      const [first, ...others] = lanes;
      if (!first) return [];
      if (others.length > 0) return readSeveral([first, ...others], room, limit);
      return readOne(first, Math.min(limit, room.get(first.queue) ?? limit));
    },
    take: createTaking(session),
  };
}

const none: readonly Value[] = [null, null, null, null];

function inOrder(a: Values, b: Values): number {
  return (
    (a[0] as number) - (b[0] as number) || (a[1] as number) - (b[1] as number) || (a[2] as number) - (b[2] as number)
  );
}

/** Rows that are taken from the start of a lane go by one statement. */
function createTaking(session: Session): Lanes['take'] {
  const { names, writer } = session;
  const remove = `delete from ${names('pending')} where place = 0 and type = ? and queue = ?`;
  const removeOne = writer(`${remove} and priority = ? and due_at = ? and seq = ?`);
  const removeStart = writer(`${remove} and (priority, due_at, seq) <= (?, ?, ?)`);

  function write(lane: LaneReading, list: readonly Known[]): void {
    const { type, queue } = lane;
    const isStart =
      lane.arrivals === session.arrivals && list.every(({ placeInLane }, index) => placeInLane === lane.taken + index);
    if (isStart) {
      const { priority, dueAt, row } = list.at(-1)!;
      const { changes } = removeStart.run(type, queue, priority, dueAt, row.seq);
      if (Number(changes) !== list.length) throw new Error(`Took ${changes} jobs instead of ${list.length}`);
      lane.taken += list.length;
    } else {
      for (const { priority, dueAt, row } of list) removeOne.run(type, queue, priority, dueAt, row.seq);
      lane.taken = Number.NaN; // what is left is not known to be its start
    }
  }

  return session.gather((list: readonly Known[]) => {
    const lanes = new Map<LaneReading, Known[]>();
    for (const known of list) {
      const some = lanes.get(known.lane!);
      if (some) some.push(known);
      else lanes.set(known.lane!, [known]);
    }
    for (const [lane, some] of lanes) write(lane, some);
  });
}
