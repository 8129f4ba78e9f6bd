/** The tables and functions of a schema, made and upgraded by numbered migrations. A migration that was released never changes. */
import { alike } from './sql/alike.js';
import { audit } from './sql/audit.js';
import { batch } from './sql/batch.js';
import { claim } from './sql/claim.js';
import { end } from './sql/end.js';
import { exchange } from './sql/exchange.js';
import { find } from './sql/find.js';
import { hold } from './sql/hold.js';
import { insert } from './sql/insert.js';
import { limits } from './sql/limits.js';
import { matches } from './sql/matches.js';
import { move } from './sql/move.js';
import { own } from './sql/own.js';
import { place } from './sql/place.js';
import { plan } from './sql/plan.js';
import { policies } from './sql/policies.js';
import { read } from './sql/read.js';
import { ready } from './sql/ready.js';
import { remove } from './sql/remove.js';
import { retention } from './sql/retention.js';
import { settle } from './sql/settle.js';
import { step } from './sql/step.js';
import { subjects } from './sql/subjects.js';
import { sweep } from './sql/sweep.js';
import { tables } from './sql/tables.js';
import { tally } from './sql/tally.js';
import { tend } from './sql/tend.js';
import { term } from './sql/term.js';
import { why } from './sql/why.js';

/** In an order in which each part finds the types that it uses. */
const parts = [
  ...[tables, step, place, end, policies, matches, insert, own, batch, alike, limits, find, ready, tend, claim],
  ...[settle, exchange, move, hold, remove, retention, term, subjects, sweep, tally, read, why, plan, audit],
];

/** `schema`: a quoted identifier. */
const first = (schema: string): string =>
  `set local check_function_bodies = off;\n${parts.map((part) => part(schema)).join('')}`;

export const migrations: readonly ((schema: string) => string)[] = [first];
