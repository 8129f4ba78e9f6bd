/** Steps as transactions: taken at once where nobody is in the way, else waited for without stopping the process. */
import { LastoutError } from '../../core/errors.js';
import { defaults } from '../../core/policy.js';
import { pause, type System } from '../../core/system.js';
import { prepare, rollBack, type SqliteDatabase } from './driver.js';
import { isBusy, translate, unsureCommit } from './errors.js';

/** The synchronous part of a wait: heartbeats stand still meanwhile. */
export const busyTimeoutMs = 5;
const waitMs = { least: 2, most: 25 } as const;
/** Nothing is tried after this: the caller is about to be told that the outcome is unknown, and must not be wrong later. */
const lockWaitMaxMs = defaults.storeCallMs - 1_000;

/** Tries until it is not busy any more, in the order of the calls, or until the deadline. */
export interface Line {
  run<T>(attempt: () => T, system: System): Promise<T>;
  /** Whether nobody waits. */
  isFree(): boolean;
}

export function createLine(where: string, deadlineMs: number): Line {
  const mostMs = Math.min(deadlineMs, lockWaitMaxMs);
  let waiting = 0;
  let last: Promise<unknown> = Promise.resolve();

  async function persist<T>(attempt: () => T, system: System, startedAt: number, isFirst: boolean): Promise<T> {
    const waited = (): number => system.monotonic() - startedAt;
    if (isFirst) await waitABit(system);
    for (;;) {
      if (waited() > lockWaitMaxMs) throw stillBusy(where, mostMs);
      try {
        return attempt();
      } catch (error) {
        if (!isBusy(error)) throw translate(error, where);
        if (waited() >= mostMs) throw stillBusy(where, mostMs, error);
      }
      await waitABit(system);
    }
  }

  return {
    isFree: () => waiting === 0,
    async run(attempt, system) {
      const isFirst = waiting === 0;
      if (isFirst) {
        try {
          return attempt();
        } catch (error) {
          if (!isBusy(error)) throw translate(error, where);
        }
      }
      waiting += 1;
      const startedAt = system.monotonic();
      const mine = last.then(() => persist(attempt, system, startedAt, isFirst));
      last = mine.then(
        () => (waiting -= 1),
        () => (waiting -= 1),
      );
      return mine;
    },
  };
}

function stillBusy(where: string, deadlineMs: number, cause?: unknown): LastoutError {
  const message =
    `${where} was locked by another transaction for ${deadlineMs} ms. Nothing was written; ` +
    'look for a program that holds a write transaction open. If it is this very process, in a transaction that ' +
    'awaits this call, the call needs { tx }.';
  return new LastoutError('STORE_UNAVAILABLE', message, undefined, cause);
}

/** A caller awaits this, so it keeps the process alive. */
function waitABit(system: System): Promise<void> {
  return pause(system, waitMs.least + system.random() * (waitMs.most - waitMs.least), undefined, 'hold');
}

/** What a transaction does besides its work. */
export interface StepFrame {
  begin(writes: boolean): void;
  /** Before the commit of one that writes. */
  flush(): void;
  /** It was rolled back, or may have been. */
  forget(): void;
}

export interface Transactions {
  /** Both run their work at once; busy errors come through, and then nothing has happened. */
  writing<T>(frame: StepFrame, work: () => T): T;
  reading<T>(frame: StepFrame, work: () => T): T;
}

export function createTransactions(db: SqliteDatabase, where: string): Transactions {
  const begin = { writing: prepare(db, 'begin immediate'), reading: prepare(db, 'begin') };
  const commit = prepare(db, 'commit');

  function run<T>(kind: 'writing' | 'reading', frame: StepFrame, work: () => T): T {
    begin[kind].run();
    try {
      frame.begin(kind === 'writing');
      const value = work();
      if (kind === 'writing') frame.flush();
      commitNow(kind);
      return value;
    } catch (error) {
      rollBack(db);
      frame.forget();
      throw error;
    }
  }
  function commitNow(kind: 'writing' | 'reading'): void {
    try {
      commit.run();
    } catch (error) {
      throw kind === 'writing' ? unsureCommit(error, where) : error;
    }
  }
  return {
    writing: (frame, work) => run('writing', frame, work),
    reading: (frame, work) => run('reading', frame, work),
  };
}
