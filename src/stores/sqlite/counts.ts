/**
 * Every number that steps change, in one table, so that a small step writes one page for all of them: the counters
 * `seq`, `epoch`, `stored` and `policy` (part ''), the tally (name: state, part: queue), and the rows per policy
 * (`uses`, part: its number), and whether a run is open (open-run.ts). A number at 0 has no row.
 */
import type { Statement } from './driver.js';
import type { Session, StepPart } from './session.js';

export interface Counts extends StepPart {
  read(name: string, part?: string): number;
  add(name: string, part: string, delta: number): void;
  /** Adds to a counter: its new value. */
  advance(name: string, by: number): number;
  /** Adds one to a counter, or as much as it takes to come to `least`: its new value. */
  raise(name: string, least: number): number;
  /** All numbers with these names. */
  all(names: readonly string[]): Iterable<{ readonly name: string; readonly part: string; readonly n: number }>;
  flush(): void;
}

interface Count {
  readonly name: string;
  readonly part: string;
  /** Null: not read. */
  stored: number | null;
  delta: number;
}

const rememberedMax = 1_000;
/** Numbers that one statement writes: a small step has fewer. */
const writtenMax = 8;

export function createCounts(sql: Session['sql'], names: Session['names']): Counts {
  const table = names('counts');
  const select = sql(`select n from ${table} where name = ? and part = ?`);
  const upsertOf = (many: number): Statement =>
    sql(
      `insert into ${table} (name, part, n) values ${Array(many).fill('(?, ?, ?)').join(', ')} ` +
        'on conflict do update set n = n + excluded.n',
    );
  const upserts = Array.from({ length: writtenMax }, (_, index) => upsertOf(index + 1));
  const removeZero = sql(`delete from ${table} where name = ? and part = ? and n = 0`);
  const known = new Map<string, Map<string, Count>>();
  let remembered = 0;
  const touched = new Set<Count>();

  function entry(name: string, part: string): Count {
    let parts = known.get(name);
    if (!parts) known.set(name, (parts = new Map<string, Count>()));
    let count = parts.get(part);
    if (!count) {
      parts.set(part, (count = { name, part, stored: null, delta: 0 }));
      remembered += 1;
    }
    return count;
  }
  function add(name: string, part: string, delta: number): Count {
    const count = entry(name, part);
    count.delta += delta;
    touched.add(count);
    return count;
  }
  function read(name: string, part = ''): number {
    const count = entry(name, part);
    count.stored ??= Number(select.get(name, part)?.[0] ?? 0);
    return count.stored + count.delta;
  }
  function advance(name: string, by: number): number {
    const { stored, delta } = add(name, '', by);
    return stored === null ? read(name) : stored + delta;
  }
  function write(counts: readonly Count[]): void {
    upserts[counts.length - 1]!.run(...counts.flatMap(({ name, part, delta }) => [name, part, delta]));
    for (const count of counts) {
      const { name, part, delta } = count;
      if (count.stored !== null) count.stored += delta;
      if (delta < 0 && !count.stored) removeZero.run(name, part);
      count.delta = 0;
    }
  }
  function forget(): void {
    known.clear();
    touched.clear();
    remembered = 0;
  }
  return {
    begin() {
      if (remembered > rememberedMax) forget();
      // What a step counted that only reads is in no row.
      for (const count of touched) count.delta = 0;
      touched.clear();
    },
    reread: forget,
    read,
    add: (name, part, delta) => void add(name, part, delta),
    advance,
    raise: (name, least) => advance(name, Math.max(1, least - read(name))),
    *all(ofNames) {
      const added = new Set([...touched].filter(({ name }) => ofNames.includes(name)));
      const select = sql(`select name, part, n from ${table} where name in (${ofNames.map(() => '?').join(', ')})`);
      for (const values of select.all(...ofNames)) {
        const [name, part, n] = values as [string, string, number];
        const count = known.get(name)?.get(part);
        if (count) added.delete(count);
        yield { name, part, n: n + (count?.delta ?? 0) };
      }
      for (const { name, part, delta } of added) yield { name, part, n: delta };
    },
    flush() {
      const changed = [...touched].filter(({ delta }) => delta !== 0);
      touched.clear();
      for (let from = 0; from < changed.length; from += writtenMax) write(changed.slice(from, from + writtenMax));
    },
  };
}
