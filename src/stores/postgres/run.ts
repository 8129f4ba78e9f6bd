/** One statement on a connection of the pool: tried again where nothing has happened, told apart where that is not known. */
import type { System } from '../../core/system.js';
import { breakOff, type PgQuery, unsentBytes } from './driver.js';
import { isConflict, isCutOff, isLost, isTooStrict, isUnprepared, isUnsent, lost, refused, textOf } from './errors.js';
import type { Ear } from './listen.js';
import type { Lent, Pool } from './pool.js';

export type Rows = readonly (readonly unknown[])[];

/** `named`: whether the session is ours, so that a statement can stay prepared in it. */
export type Run = (queryOf: (named: boolean) => PgQuery, kind: 'reading' | 'writing') => Promise<Rows>;

export interface RunParts {
  readonly pool: Pool;
  readonly where: string;
  readonly system: System;
  readonly ear: Ear;
}

/** How often a step is tried that others have got in the way of, or whose connection turned out to be gone. */
const triesMax = 4;
/** When no answer has come by then, the server is asked whether it still works on one. */
export const doubtMs = 900;
const overtakenMs = 300;
/** Longer than the server lets any statement run: nobody waits for the answer any more. */
const hopelessMs = 14_000;

export function createRun({ pool, where, system, ear }: RunParts): Run {
  /** Until the session turns out to be shared with others. */
  let named = true;
  /** Once a session turned out to begin its transactions stricter: each statement then gets a transaction that says how it begins. */
  let strict = false;

  async function answered(lent: Lent, query: PgQuery): Promise<Rows> {
    const stop = watch(lent);
    try {
      return (await system.awaiting(lent.client.query(query))).rows as unknown[][];
    } finally {
      stop();
    }
  }

  /** The commit alone can leave open whether it was done: what is lost before it was taken back. */
  async function inTransaction(lent: Lent, query: PgQuery): Promise<Rows> {
    let rows: Rows;
    try {
      await answered(lent, { text: 'begin isolation level read committed' });
      rows = await answered(lent, query);
    } catch (error) {
      if (isLost(error) || isCutOff(error)) throw new Uncommitted(error);
      await answered(lent, { text: 'rollback' });
      throw error;
    }
    await answered(lent, { text: 'commit' });
    return rows;
  }

  /** A connection that went silently would keep its caller, and its place in the pool, until the deadline of the call. */
  function watch({ client, pid }: Lent): () => void {
    const callOffEnd = system.timer(hopelessMs, () => breakOff(client));
    let over = false;
    let callOff = pid === null ? () => undefined : system.timer(doubtMs, () => void doubt());
    async function doubt(): Promise<void> {
      const isAtWork = unsentBytes(client) > 0 || (await ear.isAtWork(pid!).catch(() => false));
      if (over) return;
      // An answer may have been on its way while we asked.
      callOff = isAtWork
        ? system.timer(doubtMs, () => void doubt())
        : system.timer(overtakenMs, () => breakOff(client));
    }
    return () => {
      over = true;
      callOff();
      callOffEnd();
    };
  }

  return async (queryOf, kind) => {
    for (let tries = 1; ; tries++) {
      const lent = await pool.lend();
      let failed: unknown;
      try {
        const query = queryOf(named && lent.pid !== null);
        return await (strict ? inTransaction(lent, query) : answered(lent, query));
      } catch (error) {
        failed = error;
      } finally {
        lent.giveBack(failed !== undefined && (isLost(failed) || isCutOff(failed)));
      }
      if (isUnprepared(failed)) named = false;
      if (isTooStrict(failed)) strict = true;
      const isOpen = isLost(failed) && !isUndone(failed);
      const again = isOpen ? kind === 'reading' : isUndone(failed) || isWorthAnother(failed);
      if (!again || tries === triesMax) throw isOpen ? lost(failed, where, kind) : refused(failed, where);
    }
  };
}

/** The connection was lost before a commit was sent: nothing has happened. */
class Uncommitted extends Error {
  constructor(override readonly cause: unknown) {
    super(textOf(cause));
  }
}

function isUndone(error: unknown): boolean {
  return isUnsent(error) || error instanceof Uncommitted;
}

function isWorthAnother(error: unknown): boolean {
  return isConflict(error) || isUnprepared(error) || isTooStrict(error) || isCutOff(error);
}
