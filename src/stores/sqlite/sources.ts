/**
 * Which index answers a filter, in the order of seq. A condition that none of them settles is asked of each row that is
 * read, in the list of results, where it cannot make SQLite read on by itself: how many rows are looked at is decided by
 * the scan.
 */
import { askedColumns } from '../../core/columns.js';
import { type FinishedState, finishedStates } from '../../core/job.js';
import { systemQueue } from '../../core/names.js';
import type { JobFilter } from '../../core/store.js';
import { Place } from '../local/tables.js';
import type { Value } from './driver.js';
import { hasEnded, standsAt } from './live.js';
import { columnOf, stateNumber } from './rows.js';
import { inRunBelow } from './runs.js';
import type { Session } from './session.js';

export interface Condition {
  readonly text: string;
  readonly values: readonly Value[];
}

/** Rows with their row of `jobs` as j, in the order of a column. */
export interface Source {
  readonly from: string;
  readonly seq: 'j.seq' | 'p.seq' | 'd.seq' | 'o.seq';
  /** Where a row stands for a run of jobs: which of them are read, given the number that they are below. */
  readonly inRun?: string;
  /** What is read. */
  readonly lead: readonly Condition[];
  /** What is asked of each row. */
  readonly checks: readonly Condition[];
}

export interface Lists {
  /** Numbers of rows that a claim names. */
  heldSeqs(): Iterable<number>;
  /** Numbers of pending rows that are past their ttl. */
  expiredSeqs(now: number): readonly number[];
}

/** More types than this are checked row by row: a reader for each would read too much ahead. */
const typesMax = { asked: 32, known: 200 } as const;

export function createSources(session: Session, lists: Lists): (filter: JobFilter, now: number) => Source[] {
  const { names, sql } = session;
  const jobs = `${names('jobs')} j`;
  const waiting = `${names('pending')} p indexed by ${names('pending_type')} cross join ${jobs}`;
  const owned = `${names('owned')} o cross join ${jobs} on j.seq = o.seq`;
  const finished = `${names('done')} d cross join ${jobs} on j.seq = d.seq`;
  const waitingTypes = typesIn(
    sql(
      `select type from ${names('pending')} indexed by ${names('pending_type')} where type > ? order by type limit 1`,
    ),
  );
  const finishedTypes = typesIn(sql(`select type from ${names('done')} where type > ? order by type limit 1`));
  const ended = hasEnded(session);
  const alive: Condition = { text: `not ${ended}`, values: [] };
  const stands = [Place.ready, Place.later, Place.behind].map((place) => `not exists (${standsAt(session, place)})`);
  const claimed: Condition = { text: [`not ${ended}`, ...stands].join(' and '), values: [] };

  const isOwnedBy = `exists (select 1 from ${names('owned')} o where o.seq = j.seq and o.owner = ?)`;

  /** What the filter says beside what is settled and the states. */
  function checksOf(filter: JobFilter, settled: readonly (keyof JobFilter)[]): Condition[] {
    const conditions = plainChecks(filter, settled);
    if (filter.ownedBy !== null && !settled.includes('ownedBy'))
      conditions.push({ text: isOwnedBy, values: [filter.ownedBy] });
    return conditions;
  }
  /** Whether a row is live, or ended in one of the states. */
  function inStates(live: boolean, states: readonly FinishedState[]): Condition[] {
    if (live && states.length === finishedStates.length) return [];
    if (states.length === 0) return [alive];
    const found = `exists (select 1 from ${names('done')} d where d.seq = j.seq and d.state in (select value from json_each(?)))`;
    const values = [JSON.stringify(states.map(stateNumber))];
    return [{ text: live ? `(${alive.text} or ${found})` : found, values }];
  }
  /** Rows that a claim names. Some have left it since: no row may come from two sources, or a page could end between. */
  const listed = (seqs: Iterable<number>, filter: JobFilter, still: Condition): Source => {
    const lead = [oneOf('j.seq', [...seqs]), still];
    return { from: jobs, seq: 'j.seq', lead, checks: checksOf(filter, []) };
  };

  function live(filter: JobFilter, types: readonly string[], now: number): Source[] {
    const wanted = liveStates(filter);
    if (wanted === 'none') return [];
    if (wanted === 'some') {
      const held = filter.states!.includes('processing') ? lists.heldSeqs() : [];
      const expired = filter.states!.includes('expired') ? lists.expiredSeqs(now) : [];
      return [listed([...held, ...expired], filter, alive)];
    }
    const checks = checksOf(filter, ['types']);
    return [
      ...types.map(
        (type): Source => ({
          from: waiting,
          seq: 'p.seq',
          inRun: inRunBelow,
          lead: [equal('p.type', type)],
          checks,
        }),
      ),
      listed(lists.heldSeqs(), filter, claimed),
    ];
  }
  function done(filter: JobFilter, types: readonly string[]): Source[] {
    const checks = checksOf(filter, ['types']);
    return types.flatMap((type) =>
      statesOf(filter).map((state): Source => {
        const lead = [equal('d.type', type), equal('d.state', stateNumber(state))];
        return { from: finished, seq: 'd.seq', lead, checks };
      }),
    );
  }
  /** Null: too many to tell them apart. */
  function typesFor({ types }: JobFilter, known: () => string[] | null): readonly string[] | null {
    if (types === null) return known();
    return types.length > typesMax.asked ? null : [...new Set(types)];
  }

  return (filter, now) => {
    const isLive = liveStates(filter) !== 'none';
    const states = statesOf(filter);
    const one = (lead: readonly Condition[], settled: readonly (keyof JobFilter)[]): Source[] => {
      const checks = [...inStates(isLive, states), ...checksOf(filter, settled)];
      return [{ from: jobs, seq: 'j.seq', lead, checks }];
    };
    if (filter.ids !== null) return one([oneOf('j.id', filter.ids)], ['ids']);
    const marked = markedBy(filter);
    if (marked) {
      return marked.flatMap(({ of, before, after, settled }) =>
        [0, 1]
          .filter((ended) => (ended === 0 ? isLive : states.length > 0))
          .map((ended): Source => {
            const checks = [...inStates(ended === 0, ended === 0 ? [] : states), ...checksOf(filter, settled)];
            const lead = [before, equal(`${of}.ended`, ended), ...after];
            return { from: of === 'o' ? owned : jobs, seq: `${of}.seq`, lead, checks };
          }),
      );
    }
    if (filter.states === null && filter.types === null) return one([], []);
    const waiting = isLive ? typesFor(filter, waitingTypes) : [];
    const over = states.length > 0 ? typesFor(filter, finishedTypes) : [];
    if (waiting === null || over === null) return one([], []);
    return [...live(filter, waiting, now), ...done(filter, over)];
  };
}

interface Marked {
  readonly of: 'j' | 'o';
  readonly before: Condition;
  readonly after: readonly Condition[];
  readonly settled: readonly (keyof JobFilter)[];
}

/** By owner, subject or key, which few jobs share; null: by none of them. */
function markedBy({ ownedBy, subject, key, types }: JobFilter): Marked[] | null {
  if (ownedBy !== null) return [{ of: 'o', before: equal('o.owner', ownedBy), after: [], settled: ['ownedBy'] }];
  if (subject !== null) return [{ of: 'j', before: equal('j.subject', subject), after: [], settled: ['subject'] }];
  if (key === null) return null;
  const before = equal('j.key', key);
  if (types === null || types.length > typesMax.asked) return [{ of: 'j', before, after: [], settled: ['key'] }];
  const settled = ['key', 'types'] as const;
  return [...new Set(types)].map((type) => ({ of: 'j', before, after: [equal('j.type', type)], settled }));
}

/** One seek per type; null where there are too many. */
function typesIn(next: { get(after: string): readonly Value[] | undefined }): () => string[] | null {
  return () => {
    const types: string[] = [];
    for (let type = next.get('')?.[0]; type !== undefined; type = next.get(type as string)?.[0]) {
      if (types.length === typesMax.known) return null;
      types.push(type as string);
    }
    return types;
  };
}

function statesOf({ states }: JobFilter): readonly FinishedState[] {
  return states === null ? finishedStates : finishedStates.filter((state) => states.includes(state));
}

/** A pending row past its ttl reads as expired, so live rows count for that state too. */
export function liveStates({ states }: JobFilter): 'all' | 'some' | 'none' {
  if (states === null || states.includes('pending')) return 'all';
  return states.includes('processing') || states.includes('expired') ? 'some' : 'none';
}

/** What is asked of the columns of a job. */
function plainChecks(filter: JobFilter, settled: readonly (keyof JobFilter)[]): Condition[] {
  const { ids, types, queues, before, after } = filter;
  const conditions: Condition[] = [];
  if (ids !== null && !settled.includes('ids')) conditions.push(oneOf('j.id', ids));
  if (types !== null && !settled.includes('types')) conditions.push(oneOf('j.type', types));
  if (queues !== null) conditions.push(oneOf('j.queue', queues));
  if (!filter.system) conditions.push({ text: 'j.queue <> ?', values: [systemQueue] });
  for (const { name, column, sqlite } of askedColumns) {
    const value = filter[name];
    // Who owns a job has an index of its own.
    if (value === null || name === 'ownedBy' || settled.includes(name)) continue;
    conditions.push({ text: sqlite(columnOf(column), '?'), values: [value] });
  }
  if (before !== null) conditions.push({ text: 'j.created_at < ?', values: [before] });
  if (after !== null) conditions.push({ text: 'j.created_at > ?', values: [after] });
  return conditions;
}

function equal(column: string, value: Value): Condition {
  return { text: `${column} = ?`, values: [value] };
}

function oneOf(column: string, values: readonly Value[]): Condition {
  return { text: `${column} in (select value from json_each(?))`, values: [JSON.stringify(values)] };
}
