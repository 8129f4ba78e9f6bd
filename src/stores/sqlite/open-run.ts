/**
 * The open run. Who awaits each of his jobs adds them one by one, and those of a millisecond are alike. So a step that adds
 * one soon after others leaves its run open, with numbers kept free behind it: a job that joins writes its row, and nothing
 * else. Its place is that of the run. The next step that writes, whoever takes it, first closes the run: it counts and tells
 * what has joined. A step that only reads counts and tells it for itself.
 *
 * While a run is open, the count `open` is the number of its first job, and those above the count `seq` have joined.
 */
import { systemQueue } from '../../core/names.js';
import { isAlikeOn, isPlainOn } from '../../core/plain.js';
import type { NewJob } from '../../core/store.js';
import type { Run } from '../local/runs.js';
import { Place, type Row } from '../local/tables.js';
import { alike, isPlain } from './added.js';
import type { KnownIds } from './ids.js';
import type { Session, StepPart } from './session.js';

/** How many jobs may join: whoever reads meanwhile reads them all. */
const joinMax = 100;
/** A run is left open where so many like it have come within a millisecond, no longer ago than this. */
const soon = { count: 2, ms: 1 } as const;

/** What the jobs that have joined have in common, and their ids as a list in JSON. */
type Joined = [type: string, queue: string, priority: number, dueAt: number, policy: number, ids: string];

/** What was added and is in no record of the log yet. */
export interface Untold {
  readonly at: number;
  readonly runs: readonly Run[];
}

export interface OpenRun extends StepPart {
  /** The first thing in a step. */
  account(writes: boolean): void;
  /** A row is added in this step. */
  added(row: Row): void;
  /** Stores one more job of the run that was left open here, in a transaction of its own. False: that takes a step. */
  join(job: NewJob, now: number): boolean;
  /** What has joined, for a step that only reads. */
  untold(): Untold | null;
}

export interface OpenRunParts {
  readonly ids: Pick<KnownIds, 'isNew' | 'added'>;
  /** Whether it has to be asked for each job if there is room for it. */
  isBounded(queue: string): boolean;
  addEvents(at: number, runs: readonly Run[]): void;
}

export function createOpenRun(session: Session, { ids, isBounded, addEvents }: OpenRunParts): OpenRun {
  const { names, sql, counts, isOurs } = session;
  const [jobs, pending] = [names('jobs'), names('pending')];
  const lane = `place = ${Place.ready} and type = ? and queue = ? and priority = ? and due_at = ?`;
  const setLast = sql(`update ${pending} set last = ? where ${lane} and seq = ? and last = ?`);
  const joined = sql(
    `select type, queue, priority, due_at, policy, (select json_group_array(id) from ` +
      `(select id from ${jobs} where seq > ? order by seq)) from ${jobs} where seq = ?`,
  );
  // Only as long as nobody has taken a step: whatever is remembered here is true until then.
  const insert = sql(
    `insert into ${jobs} (seq, id, ${alike}, input) select ?, ?, ?, ?, ?, ?, ?, ?, ?, ? ` +
      `from ${names('counts')} where name = 'open' and part = '' and n = ?`,
  );

  /** The run that was left open here: its first number, the next one, and the job that those who join are like. */
  let open: { readonly first: number; next: number; readonly like: Row; readonly policy: number } | null = null;
  let untold: Untold | null = null;
  /** The rows of this step. */
  let fresh: Row[] = [];
  /** The only one of the step before, and how many of that millisecond it was the last of. */
  let lately: { readonly row: Row; count: number } | null = null;

  function account(writes: boolean): void {
    untold = null;
    if (writes) open = null;
    const first = counts.read('open');
    if (first === 0) return;
    const counted = counts.read('seq');
    const [type, queue, priority, dueAt, policy, list] = joined.get(counted, counted) as unknown as Joined;
    const newIds = JSON.parse(list) as string[];
    const n = newIds.length;
    if (n > 0) {
      counts.add('seq', '', n);
      counts.add('stored', '', n);
      counts.add('pending', queue, n);
      counts.add('created', 'job', n);
      counts.add('uses', String(policy), n);
      untold = { at: dueAt, runs: [[{ name: 'created', type, queue }, newIds]] };
    }
    if (!writes) return;
    setLast.run(counted + n, type, queue, priority, dueAt, first, counted + joinMax);
    counts.add('open', '', -first);
    if (untold) addEvents(untold.at, untold.runs);
    untold = null;
  }
  /** One plain job was added: the millisecond that it came in. */
  function follow(row: Row): void {
    const before = lately;
    const isLikeBefore = before !== null && isSameLane(before.row, row) && row.dueAt - before.row.dueAt <= soon.ms;
    const isSameInstant = isLikeBefore && before.row.dueAt === row.dueAt;
    lately = { row, count: isSameInstant ? before.count + 1 : 1 };
    if (isOurs && isLikeBefore && before.count >= soon.count && !isBounded(row.queue)) leaveOpen(row);
  }
  /** Unless the job has left the run in this very step, or the run is not what it was. */
  function leaveOpen(like: Row): void {
    const { type, queue, priority, dueAt, seq } = like;
    if (session.newest?.last !== seq) return;
    const first = session.newest.first.seq;
    if (Number(setLast.run(seq + joinMax, type, queue, priority, dueAt, first, seq).changes) === 0) return;
    counts.add('open', '', first);
    open = { first, next: seq + 1, like, policy: session.rows.get(seq)!.policy };
  }

  return {
    begin: () => void (fresh = []),
    account,
    added: (row) => void fresh.push(row),
    flush() {
      if (fresh.length === 1 && isReadyAndPlain(fresh[0]!)) follow(fresh[0]!);
      else lately = null;
    },
    reread: () => void (lately = null),
    forget: () => void (open = null),
    join(job, now) {
      if (!open || !isOfRun(job) || !isLike(job, open.like) || now !== open.like.dueAt || !ids.isNew(job.id))
        return false;
      const { type, queue, priority, dueAt, createdAt, maxAttempts, seq } = open.like;
      if (open.next > seq + joinMax) return false;
      const values = [open.next, job.id, type, queue, priority, dueAt, createdAt, maxAttempts, open.policy, job.input];
      if (Number(insert.run(...values, open.first).changes) === 0) {
        open = null;
        return false;
      }
      open.next += 1;
      if (lately) lately.count += 1;
      ids.added(job.id);
      return true;
    },
    untold: () => untold,
  };
}

function isReadyAndPlain(row: Row): boolean {
  return row.place === Place.ready && row.queue !== systemQueue && isPlain(row);
}

function isSameLane(a: Row, b: Row): boolean {
  return a.type === b.type && a.queue === b.queue && a.priority === b.priority;
}

/** What a run has in common, and all else plain, due at once. */
const isOfRun = isPlainOn('sqlite');
const isLike = isAlikeOn<Row>('sqlite');
