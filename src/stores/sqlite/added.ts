/** New jobs: gathered, and written together. Those that differ only in id and input are one statement. */
import { isPlainKept } from '../../core/plain.js';
import { Place, type Row } from '../local/tables.js';
import { oddColumns, rareInserted, restOf } from './rows.js';
import type { Known, Session } from './session.js';

/** From so many rows on, one statement for all is faster than one for each. */
const manyMin = 4;
/** Columns in which jobs that come together do not differ. */
export const alike = 'type, queue, priority, due_at, created_at, max_attempts, policy';

export function createAdded(session: Session): (known: Known) => void {
  const { names, writer } = session;
  const jobs = names('jobs');
  const pending = names('pending');
  const insert = writer(
    `insert into ${jobs} (seq, id, ${alike}, input, ${rareInserted}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?` +
      `${', ?'.repeat(oddColumns.length)})`,
  );
  const insertPlain = writer(`insert into ${jobs} (seq, id, ${alike}, input) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  // The numbers follow the highest one, which is that of the row written before.
  const insertMany = writer(
    `insert into ${jobs} (id, ${alike}, input) select key, ?, ?, ?, ?, ?, ?, ?, value from json_each(?)`,
  );
  const place = 'place, type, queue, priority, due_at, seq, last';
  const put = writer(`insert into ${pending} (${place}, slot, xkey, expires_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  const putPlain = writer(`insert into ${pending} (${place}) values (?, ?, ?, ?, ?, ?, ?)`);
  const extend = writer(
    `update ${pending} set last = ? where place = ${Place.ready} ` +
      'and type = ? and queue = ? and priority = ? and due_at = ? and seq = ? and last = ?',
  );

  function writeOne({ row, policy }: Known): void {
    const { seq, id, type, queue, priority, dueAt, createdAt, maxAttempts, input } = row;
    const rest = restOf(row, false);
    if (rest === null && isPlainKept(row)) {
      insertPlain.run(seq, id, type, queue, priority, dueAt, createdAt, maxAttempts, policy, input);
    } else {
      const odd = oddColumns.map(({ name }) => row[name]);
      insert.run(seq, id, type, queue, priority, dueAt, createdAt, maxAttempts, policy, input, ...odd, rest);
    }
  }
  function putOne(row: Row): void {
    const { place, type, queue, priority, dueAt, seq, slot, exclusiveKey, expiresAt } = row;
    if (place === Place.claimed) return;
    if (place === Place.ready && isPlain(row)) {
      putRun(row, seq);
    } else if (slot === null && exclusiveKey === null && expiresAt === null) {
      putPlain.run(place, type, queue, priority, dueAt, seq, seq);
    } else {
      put.run(place, type, queue, priority, dueAt, seq, seq, slot, exclusiveKey, expiresAt);
    }
  }
  /** The jobs from this one to another join the run before them, if it is there still: that writes fewer pages. */
  function putRun(first: Row, last: number): void {
    const { type, queue, priority, dueAt, seq } = first;
    const { newest } = session;
    const joins = newest !== null && newest.last === seq - 1 && isAlike(newest.first, first);
    if (!joins || Number(extend.run(last, type, queue, priority, dueAt, newest.first.seq, seq - 1).changes) === 0) {
      putPlain.run(Place.ready, type, queue, priority, dueAt, seq, last);
      session.newest = { first, last };
    } else newest.last = last;
  }
  /** Rows that are alike, with numbers that follow each other. */
  function writeMany(list: readonly Known[]): void {
    const first = list[0]!;
    const { type, queue, priority, dueAt, createdAt, maxAttempts } = first.row;
    writeOne(first);
    let inputs = '';
    for (let i = 1; i < list.length; i++) {
      const { id, input } = list[i]!.row;
      inputs += `${i === 1 ? '{' : ','}"${id}":${asMember(input)}`;
    }
    const last = list.at(-1)!.row.seq;
    const { lastInsertRowid } = insertMany.run(
      ...[type, queue, priority, dueAt, createdAt, maxAttempts, first.policy],
      `${inputs}}`,
    );
    if (Number(lastInsertRowid) !== last) throw new Error(`Job ${last} was stored under another number`);
    if (first.row.place === Place.ready) putRun(first.row, last);
    else for (const { row } of list) putOne(row);
  }

  return session.gather((list: readonly Known[]) => {
    session.arrivals += 1;
    for (const known of list) known.fresh = false;
    for (let from = 0; from < list.length; ) {
      let to = from + 1;
      if (isPlain(list[from]!.row)) while (to < list.length && follows(list[to - 1]!, list[to]!)) to += 1;
      if (to - from >= manyMin) writeMany(list.slice(from, to));
      else
        for (let i = from; i < to; i++) {
          writeOne(list[i]!);
          putOne(list[i]!.row);
        }
      from = to;
    }
  });
}

/**
 * An object or a list comes out of json_each as the text that it went in as, so it need not be quoted and read again.
 * What is neither would come out as a value; texts of a codec are no JSON.
 */
function asMember(input: string): string {
  return input.startsWith('{') || input.startsWith('[') ? input : JSON.stringify(input);
}

/** Ids that were given may be hard to quote. */
export function isPlain(row: Row): boolean {
  return isPlainKept(row) && /^[\w-]+$/.test(row.id) && restOf(row, false) === null;
}

function isAlike(a: Row, b: Row): boolean {
  return a.type === b.type && a.queue === b.queue && a.priority === b.priority && a.dueAt === b.dueAt;
}

function follows(before: Known, known: Known): boolean {
  const [a, b] = [before.row, known.row];
  return (
    b.seq === a.seq + 1 &&
    b.place === a.place &&
    isAlike(a, b) &&
    b.createdAt === a.createdAt &&
    b.maxAttempts === a.maxAttempts &&
    known.policy === before.policy &&
    isPlain(b)
  );
}
