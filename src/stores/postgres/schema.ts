/**
 * The tables and functions of a schema. A new schema is made as it is now; one that an earlier version has made is brought
 * there by the upgrades, which change tables and types, and then gets the functions of now in place of its own.
 */
import { systemQueue } from '../../core/names.js';
import { replacedText } from '../../core/replaced.js';
import type { Layout } from './migrate.js';
import { alike } from './sql/alike.js';
import { audit } from './sql/audit.js';
import { batch } from './sql/batch.js';
import { claim } from './sql/claim.js';
import { end } from './sql/end.js';
import { epoch } from './sql/epoch.js';
import { exchange } from './sql/exchange.js';
import { find } from './sql/find.js';
import { health } from './sql/health.js';
import { hold } from './sql/hold.js';
import { identity, newIdentity } from './sql/identity.js';
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
import { retry } from './sql/retry.js';
import { settle } from './sql/settle.js';
import { step } from './sql/step.js';
import { subjects } from './sql/subjects.js';
import { sweep } from './sql/sweep.js';
import { noStatistics, tables } from './sql/tables.js';
import { tally } from './sql/tally.js';
import { tend } from './sql/tend.js';
import { term } from './sql/term.js';
import { why } from './sql/why.js';

/** In an order in which each part finds the types that it uses. */
const code = [
  ...[step, place, end, policies, matches, insert, own, batch, alike, limits, find, ready, tend, epoch, claim],
  ...[
    settle,
    exchange,
    move,
    retry,
    hold,
    remove,
    retention,
    term,
    subjects,
    sweep,
    tally,
    read,
    why,
    plan,
    audit,
    identity,
    health,
  ],
];

/** `schema` is a quoted name. */
const textOf = (schema: string, parts: readonly ((schema: string) => string)[]): string =>
  `set local check_function_bodies = off;\n${parts.map((part) => part(schema)).join('')}`;

/** Everything, for a new schema. */
const create = (schema: string): string => textOf(schema, [tables, newIdentity, noStatistics, ...code]);

/**
 * The functions and views, in place of those that are there. They keep their identity, so that a process of an earlier version
 * goes on in the middle of its work: by the functions of now, and by its own where a verb has got a new number since.
 */
const replace = (schema: string): string =>
  textOf(schema, [noStatistics, ...code])
    .replace(/^create type [^;]*;\n/gm, '')
    .replace(/^create (function|view) /gm, 'create or replace $1 ');

/** From each released version to the next: its tables and types. One that was released never changes. */
const upgrades: Layout['upgrades'] = [
  (s) => `
drop function ${s}.lock_types(text[]);
drop function ${s}.retry(bigint, bigint, ${s}.jobs, boolean, text);
alter table ${s}.events add progress text collate "C";
alter type ${s}.new_job add attribute under_id text;
alter type ${s}.move add attribute again boolean, add attribute failures_only boolean, add attribute copies jsonb;
alter table ${s}.done add column retried_as text collate "C";
-- Of several retries of a job, the last.
update ${s}.done d set retried_as = r.id from (
  select distinct on (b.retry_of) b.retry_of, b.id from ${s}.jobs b where b.retry_of is not null order by b.retry_of, b.seq desc
) r join ${s}.jobs o on o.id = r.retry_of where d.seq = o.seq;
alter table ${s}.events add column replaced int;
alter table ${s}.counts add column replaced bigint not null default 0;
alter table ${s}.counts alter column replaced drop default;
insert into ${s}.counts
  (queue, kind, created, released, owned, pending, delayed, processing, completed, failed, cancelled, expired, replaced)
select b.queue, case when b.queue = '${systemQueue}' then b.type else 'job' end, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, count(*)
from ${s}.done d join ${s}.jobs b on b.seq = d.seq where d.state = 1 and d.error = '${replacedText}' group by 1, 2
on conflict (queue, kind) do update set replaced = excluded.replaced;
${newIdentity(s)}`,
];

export const layout: Layout = { create, upgrades, replace };
