/**
 * Equal policies are stored once, with the number of rows that use them; the last user takes the policy along.
 * A number never stands for another text, so what this process remembers stays true whatever other processes do.
 */
import type { Counts } from './counts.js';
import type { Session, StepPart } from './session.js';

export interface Policies extends StepPart {
  bodyOf(no: number): string;
  /** One more row uses this policy: its number. */
  use(body: string): number;
  /** One row less uses it. */
  release(no: number): void;
}

const rememberedMax = 1_000;

export function createPolicies(sql: Session['sql'], names: Session['names'], counts: Counts): Policies {
  const table = names('policies');
  const selectBody = sql(`select body from ${table} where no = ?`);
  const selectNo = sql(`select no from ${table} where body = ? order by no limit 1`);
  const insert = sql(`insert or ignore into ${table} (no, body) values (?, ?)`);
  const remove = sql(`delete from ${table} where no = ?`);

  const bodies = new Map<number, string>();
  const numbers = new Map<string, number>();
  const deltas = new Map<number, number>();
  let drawn = false;

  function remember(no: number, body: string): void {
    bodies.set(no, body);
    numbers.set(body, no);
  }
  function forgetAll(): void {
    bodies.clear();
    numbers.clear();
  }
  function bodyOf(no: number): string {
    let body = bodies.get(no);
    if (body === undefined) {
      body = selectBody.get(no)?.[0] as string;
      remember(no, body);
    }
    return body;
  }

  /** As it is stored, or a new one. */
  function numberOf(body: string): number {
    const stored = selectNo.get(body)?.[0] as number | undefined;
    if (stored !== undefined) return stored;
    drawn = true;
    return counts.advance('policy', 1);
  }

  return {
    begin() {
      // After a rollback a number drawn in that step may come to stand for another text.
      if (drawn || bodies.size > rememberedMax) forgetAll();
      drawn = false;
      deltas.clear();
    },
    forget: forgetAll,
    bodyOf,
    use(body) {
      let no = numbers.get(body);
      if (no === undefined) remember((no = numberOf(body)), body);
      deltas.set(no, (deltas.get(no) ?? 0) + 1);
      return no;
    },
    release(no) {
      deltas.set(no, (deltas.get(no) ?? 0) - 1);
    },
    flush() {
      for (const [no, delta] of deltas) {
        const users = counts.read('uses', String(no));
        counts.add('uses', String(no), delta);
        // Another process may have removed it with its last user since it was remembered here.
        if (users === 0 && delta > 0) insert.run(no, bodyOf(no));
        if (users > 0 && users + delta === 0) remove.run(no);
      }
    },
  };
}
