/** Ready jobs by lane, each lane in the order priority, dueAt, seq: the order of the table itself. */
import type { Row } from '../local/tables.js';
import { Place } from '../local/tables.js';
import { limited, type Value, type Values } from './driver.js';
import type { Live } from './live.js';
import { mergePages } from './merge.js';
import { plainRow, rareLive, withRare } from './rows.js';
import { takingFromRuns } from './runs.js';
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
    `select priority, due_at, seq, last from ${table} where ${inLane} and (priority, due_at, seq) > (?, ?, ?) ` +
      `order by priority, due_at, seq ${limited}`,
  );
  // Every value costs time on its way out: the lane is known, and what few jobs have comes as one, with the end of a run.
  const odd = `coalesce(${rareLive}) is null`;
  const runLast = 'iif(p.last > p.seq, p.last, null)';
  const pageOfRows = sql(
    'select j.seq, j.id, p.priority, p.due_at, j.created_at, j.max_attempts, j.policy, j.input, ' +
      `iif(${odd}, ${runLast}, json_array(${rareLive}, p.last)) as odd ` +
      `from ${table} p cross join ${names('jobs')} j on j.seq between p.seq and p.last ` +
      `where p.place = 0 and p.type = ? and p.queue = ? order by p.priority, p.due_at, p.seq, j.seq ${limited}`,
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
  function found(known: Known, lane: LaneReading, placeInLane: number, runLast: number): Row {
    known.lane = lane;
    known.placeInLane = placeInLane;
    known.runLast = runLast;
    return known.row;
  }
  function readOne(lane: Lane, limit: number): Row[] {
    const { type, queue } = lane;
    const reading = readingOf(lane);
    return pageOfRows.all(type, queue, limit).map((values, index) => {
      const known = rows.get(values[0] as number);
      const odd = typeof values[8] === 'string' ? (JSON.parse(values[8]) as Value[]) : null;
      const sure = known && !known.guessed ? known : session.know(rowIn(lane, values, odd), values[6] as number);
      const runLast = typeof values[8] === 'number' ? values[8] : (odd?.at(-1) ?? sure.row.seq);
      return found(sure, reading, index, runLast as number);
    });
  }
  function rowIn({ type, queue }: Lane, values: Values, odd: Values | null): Row {
    const [seq, id, priority, dueAt, createdAt, maxAttempts, policy, input] = values;
    const policyText = policies.bodyOf(policy as number);
    // biome-ignore format: the order of the columns
    const row = plainRow(seq, id, type, queue, priority, dueAt, createdAt, maxAttempts, policyText, input, Place.ready);
    return odd === null ? row : withRare(row, odd, 0);
  }
  function readSeveral(lanes: readonly Lane[], room: ReadonlyMap<string, number>, limit: number): Row[] {
    const left = new Map([...room].map(([queue, n]) => [queue, { left: n }]));
    const rooms = lanes.map(({ queue }) => left.get(queue));
    const pages = lanes.map(({ type, queue }) => (after: Values | null, size: number) => {
      const rest = after === null ? [] : jobsOf(after, (after[2] as number) + 1, size);
      if (rest.length === size) return rest;
      // No job of a run that was begun has a higher number than its last one.
      const [priority, dueAt, , last] = after ?? [Number.MIN_SAFE_INTEGER, 0, 0, 0];
      const runs = page.all(type, queue, priority!, dueAt!, last!, size - rest.length);
      return [...rest, ...runs.flatMap((run) => jobsOf(run, run[2] as number, size))].slice(0, size);
    });
    const merged = mergePages(pages, inOrder, limit, rooms);
    live.many(merged.map((values) => values[2] as number));
    const taken = merged.map((values) => ({ known: rows.get(values[2] as number)!, runLast: values[3] as number }));
    for (const lane of lanes) {
      const reading = readingOf(lane);
      const ofLane = taken.filter(({ known: { row } }) => row.type === lane.type && row.queue === lane.queue);
      ofLane.forEach(({ known, runLast }, index) => found(known, reading, index, runLast));
    }
    return taken.map(({ known }) => known.row);
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

/** The jobs of a run `[priority, due_at, seq, last]` from a number on, each in the form of the run. */
function jobsOf([priority, dueAt, , last]: Values, from: number, limit: number): Values[] {
  const length = Math.max(0, Math.min(limit, (last as number) - from + 1));
  return Array.from({ length }, (_, index) => [priority!, dueAt!, from + index, last!]);
}

function inOrder(a: Values, b: Values): number {
  return (
    (a[0] as number) - (b[0] as number) || (a[1] as number) - (b[1] as number) || (a[2] as number) - (b[2] as number)
  );
}

/** Rows that are taken from the start of a lane go by one statement; of a run that was not taken whole, the rest is put back. */
function createTaking(session: Session): Lanes['take'] {
  const { names, writer } = session;
  const removeStart = writer(
    `delete from ${names('pending')} where place = 0 and type = ? and queue = ? and (priority, due_at, seq) <= (?, ?, ?)`,
  );
  const { takeOne, put } = takingFromRuns(session, writer);

  function write(lane: LaneReading, list: readonly Known[]): void {
    const { type, queue } = lane;
    const isStart =
      lane.arrivals === session.arrivals && list.every(({ placeInLane }, index) => placeInLane === lane.taken + index);
    if (isStart) {
      const last = list.at(-1)!;
      const { changes } = removeStart.run(type, queue, last.priority, last.dueAt, last.row.seq);
      const runs = list.filter(({ runLast }, index) => runLast !== list[index - 1]?.runLast).length;
      if (Number(changes) !== runs) throw new Error(`Took ${changes} runs instead of ${runs}`);
      put(last, last.row.seq + 1, last.runLast);
      lane.taken += list.length;
    } else {
      for (const known of list) takeOne(known);
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
