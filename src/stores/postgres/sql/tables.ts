/**
 * The tables of a schema. Hot rows stand apart from history: a claim deletes narrow rows of `pending` and writes one row
 * of `claims`; an ending adds one narrow row of `done`; the row in `jobs` stays where it is until the job is removed.
 * So a job is pending while it has a row in `pending`, finished once it has one in `done`, and held by a claim otherwise.
 */
import { columnTexts, otherColumns } from './columns.js';
import { queueHash } from './settings.js';

/** Columns that have their place below. Others are at the end, where an upgrade adds them. */
// biome-ignore format: one list
const placed = [
  'priority', 'max_attempts', 'policy', 'id', 'type', 'queue', 'input', 'ttl_ms', 'subject', 'key', 'xkey', 'source',
  'metadata', 'print', 'owned_by',
];

export const tables = (s: string): string => `
create sequence ${s}.job_no;
create sequence ${s}.claim_no;
create sequence ${s}.event_no;

-- Instants are milliseconds since 1970. Texts marked JSON elsewhere are never parsed here.
create table ${s}.jobs (
  seq bigint not null primary key,
  created_at bigint not null,
  due_at bigint not null,
  epoch bigint not null default 0,
  ${columnTexts('priority', 'max_attempts', 'policy')},
  flags int not null,
  attempts int not null default 0,
  stalls int not null default 0,
  ${columnTexts('id')} unique,
  ${columnTexts('type', 'queue', 'input')},
  long boolean,
  wary boolean,
  over boolean,
  "left" smallint,
  ${columnTexts('ttl_ms')},
  expires_at bigint,
  started_at bigint,
  cancel_at bigint,
  again_at bigint,
  held_until bigint,
  ${columnTexts('subject', 'key')},
  slot text collate "C",
  ${columnTexts('xkey', 'source', 'metadata', 'print')},
  retry_of text collate "C",
  cancel_reason text collate "C",
  progress text collate "C",
  memo text collate "C",
  error text collate "C",
  ${columnTexts('owned_by')},
  held_reason text collate "C"${otherColumns(...placed)}
);
comment on column ${s}.jobs.flags is
  '0: plain. 1: its claim shows more than plain columns. 2 and above: it ends one by one, because something hangs on it. 8: it owns jobs, or did.';
comment on column ${s}.jobs.epoch is 'The last claim that is over for this job; done has that of the claim that ended it.';
comment on column ${s}.jobs.over is 'Set on finished jobs on which something hangs, so that who looks for live ones need not pass over them.';
-- Keys that end with seq never repeat: who looks for equal ones to store them together finds none.
create index jobs_type on ${s}.jobs (hashtext(type), seq) with (deduplicate_items = off);
create index jobs_subject on ${s}.jobs (subject, seq) where subject is not null;
create index jobs_key on ${s}.jobs (key, seq) where key is not null;
create index jobs_live_key on ${s}.jobs (type, key, seq) where key is not null and over is null;
create index jobs_again on ${s}.jobs (again_at) where again_at is not null;
create index jobs_owned on ${s}.jobs (owned_by, seq) where owned_by is not null;
create index jobs_owned_due on ${s}.jobs (due_at, seq) where owned_by is not null and over is null;
create index jobs_held on ${s}.jobs (held_until, seq) where held_until is not null;
create index jobs_policy on ${s}.jobs (policy) where policy > 100;

-- place: 0 ready, 1 later, 2 behind the turn of its exclusive key.
create table ${s}.pending (
  seq bigint not null,
  due_at bigint not null,
  expires_at bigint,
  priority int not null,
  place smallint not null,
  dear boolean not null,
  type text collate "C" not null,
  queue text collate "C" not null,
  slot text collate "C",
  xkey text collate "C",
  primary key (type, seq)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
comment on column ${s}.pending.dear is 'Never claimed ahead.';
create index pending_ready on ${s}.pending (hashtext(type), ${queueHash('queue')}, priority, due_at, seq)
  with (deduplicate_items = off) where place = 0;
create index pending_later on ${s}.pending (due_at, seq) where place = 1;
create index pending_behind on ${s}.pending (type, queue, xkey, priority, due_at, seq) where place = 2;
create unique index pending_slot on ${s}.pending (type, slot) where slot is not null;
create index pending_expiry on ${s}.pending (expires_at, seq) where expires_at is not null;

-- Who has the turn of an exclusive key; and keys whose turn is to be looked at again.
create table ${s}.turns (
  type text collate "C" not null,
  queue text collate "C" not null,
  xkey text collate "C" not null,
  seq bigint not null,
  primary key (type, queue, xkey)
);
create table ${s}.loose (
  type text collate "C" not null,
  queue text collate "C" not null,
  xkey text collate "C" not null
);

-- One row per claim call. ahead: from this place on, seqs were claimed ahead; begun: the places of those that have begun since.
-- open: how many of seqs are still held. plain: of one lane, nothing hangs on any of them, and all that left it were completed.
create table ${s}.claims (
  epoch bigint not null primary key,
  due_at bigint not null,
  at bigint not null,
  max_stalls int not null,
  open int not null,
  ahead int not null,
  plain boolean not null,
  owner text collate "C" not null,
  types text[] collate "C" not null,
  queues text[] collate "C" not null,
  begun int[] not null,
  seqs bigint[] not null
) with (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0);
alter table ${s}.claims alter seqs set storage external, alter begun set storage external;
create index claims_due on ${s}.claims (due_at, epoch);
create index claims_owner on ${s}.claims (owner, epoch);
-- Claims with a job that was marked while it is held: asked to stop, or to run again.
create table ${s}.marked (epoch bigint not null);
create index marked_epoch on ${s}.marked (epoch);

-- state: 0 completed, 1 failed, 2 cancelled, 3 expired. keep_ms: own age rule, -1 is for ever; go_at: when it is over.
-- held_until: as in jobs; what is held stands in none of the orders of retention.
create table ${s}.done (
  seq bigint not null primary key,
  completed_at bigint not null,
  created_at bigint not null,
  epoch bigint not null,
  started_at bigint,
  keep_ms bigint,
  go_at bigint,
  held_until bigint,
  attempts int not null,
  keep_count int,
  state smallint not null,
  "left" smallint,
  type text collate "C",
  result text collate "C",
  error text collate "C",
  retried_as text collate "C"
);
comment on column ${s}.done.retried_as is 'The last job that a retry by hand has made of it, stored or not.';
comment on column ${s}.done.type is 'Only where it has a count rule.';
create index done_age on ${s}.done (completed_at, seq) where keep_ms is null and held_until is null;
create index done_kept on ${s}.done (completed_at, seq) where keep_ms is not null and held_until is null;
create index done_go on ${s}.done (go_at, seq) where go_at is not null and held_until is null;
create index done_count on ${s}.done (type, state, keep_count) where keep_count is not null and held_until is null;
create index done_held on ${s}.done (held_until, seq) where held_until is not null;
create index done_state on ${s}.done (state, seq) where state <> 0;

-- What each step did, one row per run of like events: the event log, the changes of the counts, and what it has to tell.
create table ${s}.events (
  no bigint not null primary key default nextval('${s}.event_no'),
  step bigint not null,
  at bigint not null,
  later_at bigint,
  left_epoch bigint,
  stood bigint,
  attempt int,
  pending int,
  delayed int,
  processing int,
  completed int,
  failed int,
  cancelled int,
  expired int,
  owned int,
  ready boolean,
  cancel boolean,
  name text collate "C",
  type text collate "C",
  queue text collate "C",
  subject text collate "C",
  error text collate "C",
  xkey text collate "C",
  ids text collate "C",
  progress text collate "C",
  replaced int
) with (toast_tuple_target = 8160);
alter table ${s}.events alter ids set storage external;
-- The sums of all rows up to the mark 'folded'; the mark 'trimmed' is the last row that was removed. kind: 'job', or of the
-- library's own queue the type. replaced: the part of failed. owned: live jobs that another one owns. created, released: how many there were and are no more,
-- which totals keeps where nothing else is left to count.
create table ${s}.counts (
  queue text collate "C" not null,
  kind text collate "C" not null,
  created bigint not null,
  released bigint not null,
  owned bigint not null,
  pending bigint not null,
  delayed bigint not null,
  processing bigint not null,
  completed bigint not null,
  failed bigint not null,
  cancelled bigint not null,
  expired bigint not null,
  replaced bigint not null,
  primary key (queue, kind)
);
create table ${s}.totals (
  kind text collate "C" not null primary key,
  created bigint not null,
  released bigint not null
);
create table ${s}.marks (name text not null primary key, no bigint not null);
insert into ${s}.marks (name, no) values ('folded', 0), ('trimmed', 0);

create table ${s}.lines (
  seq bigint not null,
  no int not null,
  at bigint not null,
  message text collate "C" not null,
  fields text collate "C",
  primary key (seq, no)
);
create table ${s}.tombs (
  no bigint generated always as identity primary key,
  at bigint not null,
  epoch bigint not null,
  "left" smallint,
  id text collate "C" not null unique,
  type text collate "C" not null,
  queue text collate "C" not null,
  state text collate "C" not null,
  why text collate "C" not null,
  reason text collate "C",
  print text collate "C" not null
);
-- Who cleans up, until when, and whether that term has its entry in the ledger. past: what had ended before this instant was
-- looked at in this term, and mostly has gone. One row.
create table ${s}.terms (
  term bigint not null primary key,
  until bigint not null,
  past bigint not null default 0,
  noted boolean not null,
  holder text collate "C" not null
);
insert into ${s}.terms (term, until, noted, holder) values (0, 0, true, '');
create table ${s}.ledger (
  no bigint generated always as identity primary key,
  term bigint not null,
  entry text collate "C" not null
);
-- What each worker takes, as it says with its heartbeats. queues null: all.
create table ${s}.workers (
  owner text collate "C" not null primary key,
  due_at bigint not null,
  concurrency int not null,
  name text collate "C" not null,
  types text[] collate "C" not null,
  queues text[] collate "C"
);
create table ${s}.paused (queue text collate "C" not null primary key);
-- Subjects that have ended. due_at: when a sweep looks for jobs that slipped in beside it, or lets it go.
create table ${s}.fences (
  subject text collate "C" not null primary key,
  at bigint not null,
  until bigint not null,
  due_at bigint not null,
  reason text collate "C" not null
);
create index fences_due on ${s}.fences (due_at);
create table ${s}.limits (
  queue text collate "C" not null primary key,
  max_pending bigint,
  concurrency bigint,
  rate_max bigint,
  rate_per_ms bigint,
  starts jsonb
);
-- Equal policies are stored once, or hardly more often: nobody waits for who stores one at the same time. keep_ms and keep_count by state, as in done.
create table ${s}.policies (
  no int generated always as identity primary key,
  keep_ms bigint[],
  keep_count int[],
  body text collate "C" not null
);
create index policies_body on ${s}.policies (hashtextextended(body, 0), no);
`;

export const noStatistics = (s: string): string => `
-- What a queue holds at one moment says nothing about the next: no statistics of values are kept, so that no plan follows them.
do $do$
declare
  c record;
begin
  for c in select a.attrelid::regclass as of, a.attname from pg_attribute a join pg_class t on t.oid = a.attrelid
    where t.relnamespace = '${s}'::regnamespace and t.relkind = 'r' and a.attnum > 0 loop
    execute format('alter table %s alter column %I set statistics 0', c.of, c.attname);
  end loop;
  for c in select a.attrelid::regclass as of, a.attnum from pg_attribute a join pg_index i on i.indexrelid = a.attrelid
    join pg_class t on t.oid = i.indrelid
    where t.relnamespace = '${s}'::regnamespace and t.relkind = 'r' and i.indkey[a.attnum - 1] = 0 loop
    execute format('alter index %s alter column %s set statistics 0', c.of, c.attnum);
  end loop;
end $do$;
`;
