/** Endings: gathered, and written together. Those that differ only in their result are one statement. */
import type { Row } from '../local/tables.js';
import { finishColumns, finishValues, goAtOf, keepValue, leavingNumber, restOf, stateNumber } from './rows.js';
import { type Known, type Session, WrongGuess } from './session.js';

/** From so many rows on, one statement for all is faster than one for each. */
const manyMin = 4;

export function createEnded(session: Session, sure: (row: Row) => Known): (row: Row) => void {
  const { names, rows, writer } = session;
  const done = names('done');
  const insert = writer(`insert into ${done} (${finishColumns}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  // Whether a row is what it was when it was claimed is asked here, where it is read anyway.
  const insertMany = writer(
    `insert into ${done} (seq, type, created_at, state, completed_at, started_at, attempts, epoch, "left", ` +
      'keep_ms, keep_count, go_at, result) select j.seq, j.type, j.created_at, ?, ?, ?, ?, ?, ?, ?, ?, ?, value ' +
      `from json_each(?) cross join ${names('jobs')} j on j.seq = json_each.key + 0 where j.rest is null or ? ` +
      'on conflict do nothing',
  );
  const mark = writer(`update ${names('jobs')} set ended = 1 where seq in (select value from json_each(?))`);

  function writeMany(list: readonly Known[]): void {
    const { row, guessed } = list[0]!;
    let results = '';
    for (let i = 0; i < list.length; i++) {
      const { seq, result } = list[i]!.row;
      results += `${i === 0 ? '{' : ','}"${seq}":${JSON.stringify(result)}`;
    }
    const { changes } = insertMany.run(
      stateNumber(row.state!),
      row.completedAt,
      row.startedAt,
      row.attempts,
      row.epoch,
      leavingNumber(row.left),
      keepValue(row),
      row.keepCount,
      goAtOf(row),
      `${results}}`,
      guessed ? 0 : 1,
    );
    if (Number(changes) === list.length) {
      for (const known of list) known.guessed = false;
      return;
    }
    if (guessed) throw new WrongGuess();
    throw new Error(`Ended ${changes} jobs instead of ${list.length}`);
  }
  function writeOne({ row }: Known): void {
    sure(row);
    insert.run(...finishValues(row));
  }

  const gather = session.gather((list: readonly Known[]) => {
    for (let from = 0; from < list.length; ) {
      let to = from + 1;
      if (isPlain(list[from]!.row)) while (to < list.length && isLike(list[from]!, list[to]!)) to += 1;
      const isMany = to - from >= manyMin || (list[from]!.guessed && isPlain(list[from]!.row));
      if (isMany) writeMany(list.slice(from, to));
      else for (let i = from; i < to; i++) writeOne(list[i]!);
      from = to;
    }
    const searched = list.filter(({ row }) => row.subject !== null || row.key !== null);
    if (searched.length > 0) mark.run(JSON.stringify(searched.map(({ row }) => row.seq)));
  });
  return (row) => gather(rows.get(row.seq)!);
}

function isPlain(row: Row): boolean {
  return restOf(row, true) === null;
}

function isLike(one: Known, other: Known): boolean {
  const [a, b] = [one.row, other.row];
  return (
    other.guessed === one.guessed &&
    b.state === a.state &&
    b.completedAt === a.completedAt &&
    b.startedAt === a.startedAt &&
    b.attempts === a.attempts &&
    b.epoch === a.epoch &&
    b.left === a.left &&
    b.keepMs === a.keepMs &&
    b.keepCount === a.keepCount &&
    isPlain(b)
  );
}
