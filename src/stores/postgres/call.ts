/** From a verb to its function in the database: one statement, one round trip. */
import { createHash } from 'node:crypto';
import type { SqlClient } from '../../core/job.js';
import { type PgQuery, types } from './driver.js';
import type { Inside } from './inside.js';
import type { Rows, Run } from './run.js';

export type { Rows };

/**
 * Calls a function of the store's schema: one statement, one round trip. Returns its rows as arrays, in column order.
 * Arguments are texts, numbers, booleans, nulls, and arrays of texts. Numbers of any kind and booleans come back as such,
 * everything else as text: so a function returns no `json`, which a caller's client would parse.
 */
export type Call = (fn: string, args: readonly unknown[], tx?: SqlClient) => Promise<Rows>;

/** `schema` is quoted. */
export function createCall(run: Run, inside: Inside, schema: string): Call {
  const statements = createStatements(schema);
  return (fn, args, tx) =>
    tx === undefined
      ? run((named) => statements(fn, args, named), isReading(fn) ? 'reading' : 'writing')
      : inside(tx, fn, args);
}

/**
 * Calls go by several connections and may overtake one another. But who asks where the event log ends, to follow it from
 * there, means before whatever is written next; a caller's own transaction waits for nobody, because it may hold the
 * connection that the question needs.
 */
export function inOrder(call: Call): Call {
  let asking: Promise<unknown> | null = null;
  return (fn, args, tx) => {
    if (asking && tx === undefined && !isReading(fn)) return asking.then(() => call(fn, args));
    const answer = call(fn, args, tx);
    if (fn === 'read_events_v2' && args[0] === null) {
      const asked = Promise.allSettled([asking, answer]).then(() => {
        if (asking === asked) asking = null;
      });
      asking = asked;
    }
    return answer;
  };
}

/** What only reads can simply be asked again. */
function isReading(fn: string): boolean {
  return /^(find|tally|read)/.test(fn);
}

type Statements = (fn: string, args: readonly unknown[], named: boolean) => PgQuery;

/** The text of a call depends on nothing but the function, so the server can keep it prepared. */
function createStatements(schema: string): Statements {
  const mark = createHash('sha256').update(schema).digest('hex').slice(0, 8);
  const known = new Map<string, { readonly text: string; readonly name: string }>();
  return (fn, args, named) => {
    let statement = known.get(fn);
    if (!statement) {
      const places = args.map((_, index) => `$${index + 1}`).join(', ');
      statement = { text: `select * from ${schema}.${fn}(${places})`, name: `lastout_${mark}_${fn}` };
      known.set(fn, statement);
    }
    const { text, name } = statement;
    const values = args as unknown[];
    return named ? { text, name, values, rowMode: 'array', types } : { text, values, rowMode: 'array', types };
  };
}
