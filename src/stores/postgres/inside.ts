/** Calls inside a transaction of the caller, through whatever client has it. */
import { LastoutError } from '../../core/errors.js';
import type { SqlClient } from '../../core/job.js';
import type { System } from '../../core/system.js';
import { refused, state, stateOf, textOf } from './errors.js';
import type { Rows } from './run.js';

/** Answers, or rejects with nothing of it left in the caller's transaction. */
export type Inside = (tx: SqlClient, fn: string, args: readonly unknown[]) => Promise<Rows>;

export interface InsideParts {
  /** Quoted. */
  readonly schema: string;
  readonly where: string;
  /** What tells this store from one of the same name elsewhere. */
  readonly identity: string;
  readonly system: System;
}

type Send = (text: string, values: unknown[]) => Promise<unknown[]>;

const savepoint = 'lastout_step';

export function createInside({ schema, where, identity, system }: InsideParts): Inside {
  /** Savepoints are a stack: the steps in one transaction wait for each other. */
  const turns = new WeakMap<SqlClient, Promise<unknown>>();

  async function step(send: Send, fn: string, args: readonly unknown[]): Promise<Rows> {
    await begin(send);
    let rows: Rows;
    try {
      const statement = statementOf(schema, fn, args);
      const [row] = await send(statement.text, statement.values);
      rows = rowsOf(row, identity, where);
    } catch (error) {
      await undo(send, error);
      throw explain(error, where);
    }
    await release(send);
    return rows;
  }

  return (tx, fn, args) => {
    if (!isClient(tx)) return Promise.reject(noClient());
    const send: Send = async (text, values) => (await system.awaiting(tx.query!(text, values))).rows;
    const turn = turns.get(tx);
    // Nobody else is at it: the first statement goes out before the call yields.
    const answer = turn ? turn.then(() => step(send, fn, args)) : step(send, fn, args);
    const over = answer
      .catch(() => undefined)
      .then(() => {
        if (turns.get(tx) === over) turns.delete(tx);
      });
    turns.set(tx, over);
    return answer;
  };
}

/** What cannot be read was sent nothing. */
function isClient(tx: SqlClient): boolean {
  try {
    return typeof tx?.query === 'function';
  } catch {
    return false;
  }
}

/** Only in a transaction can there be a savepoint. With it, whatever fails can be undone without ending the transaction. */
async function begin(send: Send): Promise<void> {
  try {
    await send(`savepoint ${savepoint}`, []);
  } catch (error) {
    const code = stateOf(error);
    if (code === state.noTransaction) throw noTransaction(error);
    const why = code === state.failedTransaction ? 'it has failed before' : textOf(error);
    const message = `tx could not be used (${why}). Nothing was written.`;
    throw new LastoutError('INVALID_TRANSACTION', message, undefined, error);
  }
}

async function release(send: Send): Promise<void> {
  try {
    await send(`release savepoint ${savepoint}`, []);
  } catch (error) {
    const message = `tx ended while a job was written in it (${textOf(error)}): whether it was stored is not known. Await the call before you commit.`;
    throw new LastoutError('RESULT_UNKNOWN', message, undefined, error);
  }
}

async function undo(send: Send, reason: unknown): Promise<void> {
  try {
    await send(`rollback to savepoint ${savepoint}`, []);
    await send(`release savepoint ${savepoint}`, []);
  } catch (error) {
    const message = `tx failed (${textOf(reason)}), and what was begun could not be undone (${textOf(error)}). Roll back.`;
    throw new LastoutError('RESULT_UNKNOWN', message, undefined, reason);
  }
}

/**
 * Clients differ in how they send numbers and read columns, so everything goes and comes as text. Each value stands once
 * and in order, so that a client which writes `?` can replace them one by one.
 */
function statementOf(schema: string, fn: string, args: readonly unknown[]): { text: string; values: string[] } {
  const values: string[] = [];
  const places = args.map((arg) => {
    if (arg === null || arg === undefined) return 'null';
    const [text, cast] = inText(arg as Argument);
    values.push(text);
    return `$${values.length}::text${cast}`;
  });
  const place = `(select value from ${schema}.meta where name = 'identity') || ' ' || current_database()`;
  const answer = `(select coalesce(json_agg(t), '[]')::text from ${schema}.${fn}(${places.join(', ')}) t)`;
  return { text: `select ${place} as place, ${answer} as answer`, values };
}

type Argument = string | number | boolean | readonly (string | number)[];

function inText(arg: Argument): [text: string, cast: string] {
  if (typeof arg === 'string') return [arg, ''];
  // A parameter of any integer type takes a small one.
  if (typeof arg === 'number') return [String(arg), (arg | 0) === arg ? '::int' : '::bigint'];
  if (typeof arg === 'boolean') return [String(arg), '::boolean'];
  return [`{${arg.map((item) => JSON.stringify(String(item))).join(',')}}`, '::text[]'];
}

function rowsOf(row: unknown, identity: string, where: string): Rows {
  const [place, answer] = Object.values((row ?? {}) as Record<string, unknown>);
  if (place !== identity) throw otherDatabase(where);
  const rows = JSON.parse(answer as string) as unknown[];
  return rows.map((one) => (one !== null && typeof one === 'object' ? (Object.values(one) as unknown[]) : [one]));
}

function explain(error: unknown, where: string): LastoutError {
  if (error instanceof LastoutError) return error;
  const code = stateOf(error);
  if (code === state.noSuchSchema || code === state.noSuchTable) return otherDatabase(where, error);
  if (code === state.notReadCommitted) return tooStrict(error);
  if (code === state.serialization || code === state.deadlock) return overtaken(error, where, code);
  return code === undefined ? unfit(error) : refused(error, where);
}

/** Its snapshot does not show how many wait by now. */
function tooStrict(cause: unknown): LastoutError {
  const message =
    'tx cannot add to a queue with maxPending, because it does not see what others have added since it began. ' +
    'Nothing was written: start it with "begin isolation level read committed".';
  return new LastoutError('INVALID_TRANSACTION', message, undefined, cause);
}

function overtaken(error: unknown, where: string, sqlState: string): LastoutError {
  const message = `${where} was changed by another transaction that got in the way of tx. Nothing was written: roll back, and begin anew. (PostgreSQL: ${textOf(error)})`;
  return new LastoutError('STORE_UNAVAILABLE', message, { sqlState }, error);
}

/** PostgreSQL did not raise it, so it is the client that cannot be used. */
function unfit(error: unknown): LastoutError {
  const message = `tx could not be used (${textOf(error)}). Nothing was written.`;
  return new LastoutError('INVALID_TRANSACTION', message, undefined, error);
}

function noClient(): LastoutError {
  const message = 'tx is no PostgreSQL client: give one with query(text, values), on which BEGIN was run.';
  return new LastoutError('INVALID_TRANSACTION', message);
}

function noTransaction(cause: unknown): LastoutError {
  const message =
    'tx has no open transaction: run BEGIN on it first, and COMMIT after this call. A pool cannot be one: take a client from it.';
  return new LastoutError('INVALID_TRANSACTION', message, undefined, cause);
}

function otherDatabase(where: string, cause?: unknown): LastoutError {
  const message = `tx is a transaction on another database. ${where} needs one of its own: the job could not be committed with yours.`;
  return new LastoutError('INVALID_TRANSACTION', message, undefined, cause);
}
