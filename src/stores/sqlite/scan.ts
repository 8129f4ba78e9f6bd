/**
 * Find: live and finished rows that pass a filter, newest first. The statement is put together from fixed fragments;
 * every value is a parameter. Each table is read through one leading condition that an index serves in the order of
 * seq. The other conditions are asked of each row that is read so, in the list of results, where they cannot make SQLite
 * read on by itself: how many rows are looked at is decided here.
 */
import { type FinishedState, finishedStates } from '../../core/job.js';
import { systemQueue } from '../../core/names.js';
import type { JobFilter } from '../../core/store.js';
import type { Row, Tables } from '../local/tables.js';
import { limited, type Value, type Values } from './driver.js';
import { mergePages, type ReadPage } from './merge.js';
import { stateNumber } from './rows.js';
import type { Session } from './session.js';

interface Condition {
  readonly text: string;
  readonly values: readonly Value[];
}

export interface ScanSources {
  live(seqs: readonly number[]): Row[];
  finished(seqs: readonly number[]): Row[];
  /** Numbers of rows that a claim names. */
  heldSeqs(): Iterable<number>;
  /** Numbers of pending rows that are past their ttl. */
  expiredSeqs(now: number): readonly number[];
}

/** A filter with more names than this is checked row by row: a reader per name would read too much ahead. */
const readersMax = 32;

export function createScan({ names, sql }: Session, sources: ScanSources): Pick<Tables, 'scan'> {
  const live = names('jobs');
  const done = names('done');

  /** Pages of `[seq, whether it passes]`. */
  const reader = (table: string, lead: readonly Condition[], rest: readonly Condition[], below: number): ReadPage => {
    const passes = rest.length === 0 ? '1' : textOf(rest);
    const bounded = textOf([...lead, { text: 'seq < ?', values: [] }]);
    const statement = sql(
      `select seq, ${passes} as passes from ${table} where ${bounded} order by seq desc ${limited}`,
    );
    const values = [...rest, ...lead].flatMap((condition) => condition.values);
    return (after, size) => statement.all(...values, after ? after[0]! : below, size);
  };

  function liveReaders(filter: JobFilter, below: number, now: number): ReadPage[] {
    const wanted = liveStates(filter);
    if (wanted === 'none') return [];
    const chosen = wanted === 'all' ? [] : [oneOf('seq', candidates(filter, now))];
    const leads: Lead[] = wanted === 'all' ? leadsOf(filter) : [{ conditions: [], settles: [] }];
    return leads.map(({ conditions, settles }) =>
      reader(live, [...conditions, ...chosen], others(filter, settles), below),
    );
  }
  function candidates({ states }: JobFilter, now: number): number[] {
    const held = states!.includes('processing') ? sources.heldSeqs() : [];
    const expired = states!.includes('expired') ? sources.expiredSeqs(now) : [];
    return [...held, ...expired];
  }
  function doneReaders(filter: JobFilter, below: number): ReadPage[] {
    const states = filter.states?.filter(isFinished) ?? null;
    if (states?.length === 0) return [];
    return doneLeadsOf(filter, states).map(({ conditions, settles }) => {
      const state = states === null || settles.includes('states') ? [] : [oneOf('state', states.map(stateNumber))];
      return reader(done, conditions, [...state, ...others(filter, settles)], below);
    });
  }

  function rowsOf(seqs: readonly number[], filter: JobFilter): Row[] {
    if (seqs.length === 0) return [];
    const found = new Map<number, Row>();
    if (liveStates(filter) !== 'none') for (const row of sources.live(seqs)) found.set(row.seq, row);
    if (found.size < seqs.length) for (const row of sources.finished(seqs)) found.set(row.seq, row);
    return seqs.map((seq) => found.get(seq)!);
  }

  return {
    scan({ filter, before, limit, examinedMax, now }) {
      const seqs: number[] = [];
      let examined = 0;
      let next: number | null = before;
      // The first look suffices where most rows pass; where few do, the looks get longer.
      for (let size = limit; next !== null && seqs.length < limit && examined < examinedMax; size *= 2) {
        const asked = Math.min(size, examinedMax - examined);
        const readers = [...liveReaders(filter, next, now), ...doneReaders(filter, next)];
        const looked = mergePages(readers, newestFirst, asked);
        if (looked.length < asked) next = null;
        for (const [seq, passes] of looked) {
          examined += 1;
          if (passes) seqs.push(seq as number);
          if (next !== null || seqs.length === limit) next = seq as number;
          if (seqs.length === limit) break;
        }
      }
      return { rows: rowsOf(seqs, filter), examined, next };
    },
  };
}

function textOf(conditions: readonly Condition[]): string {
  return conditions.map(({ text }) => text).join(' and ');
}

/** A pending row past its ttl reads as expired, so live rows count for that state too. */
function liveStates({ states }: JobFilter): 'all' | 'some' | 'none' {
  if (states === null || states.includes('pending')) return 'all';
  return states.includes('processing') || states.includes('expired') ? 'some' : 'none';
}

function isFinished(state: string): state is FinishedState {
  return finishedStates.some((finished) => finished === state);
}

interface Lead {
  readonly conditions: readonly Condition[];
  /** The fields of the filter that they settle. */
  readonly settles: readonly (keyof JobFilter)[];
}

/** The condition to read by, from the rarest to the commonest; where it is a list, one reader per member. */
function leadsOf(filter: JobFilter): Lead[] {
  const { ids, subject, key, types } = filter;
  if (ids !== null) return [{ conditions: [oneOf('id', ids)], settles: ['ids'] }];
  if (subject !== null) return [{ conditions: [equal('subject', subject)], settles: ['subject'] }];
  const byType = types !== null && types.length <= readersMax ? [...new Set(types)] : null;
  if (key !== null && !byType) return [{ conditions: [equal('key', key)], settles: ['key'] }];
  if (!byType) return [{ conditions: [], settles: [] }];
  if (key === null) return byType.map((type) => ({ conditions: [equal('type', type)], settles: ['types'] }));
  return byType.map((type) => ({ conditions: [equal('key', key), equal('type', type)], settles: ['key', 'types'] }));
}

/** The index by type has the state before the seq, and so has the one by state alone. */
function doneLeadsOf(filter: JobFilter, states: readonly FinishedState[] | null): Lead[] {
  return leadsOf(filter).flatMap((lead) => {
    const byTypeAlone = lead.settles.length === 1 && lead.settles[0] === 'types';
    const inOrder = states === null ? !byTypeAlone : lead.settles.length > 0 && !byTypeAlone;
    if (inOrder) return [lead];
    return (states ?? finishedStates).map((state) => ({
      conditions: [...lead.conditions, equal('state', stateNumber(state))],
      settles: [...lead.settles, 'states'],
    }));
  });
}

function others(filter: JobFilter, settled: readonly (keyof JobFilter)[]): Condition[] {
  const { ids, types, queues, subject, key, source, before, after } = filter;
  const conditions: Condition[] = [];
  if (ids !== null && !settled.includes('ids')) conditions.push(oneOf('id', ids));
  if (types !== null && !settled.includes('types')) conditions.push(oneOf('type', types));
  if (queues !== null) conditions.push(oneOf('queue', queues));
  if (!filter.system) conditions.push({ text: 'queue <> ?', values: [systemQueue] });
  if (subject !== null && !settled.includes('subject')) conditions.push(equal('subject', subject));
  if (key !== null && !settled.includes('key')) conditions.push(equal('key', key));
  if (source !== null) conditions.push(equal('source', source));
  if (before !== null) conditions.push({ text: 'created_at < ?', values: [before] });
  if (after !== null) conditions.push({ text: 'created_at > ?', values: [after] });
  return conditions;
}

function equal(column: string, value: Value): Condition {
  return { text: `${column} = ?`, values: [value] };
}

function oneOf(column: string, values: readonly Value[]): Condition {
  return { text: `${column} in (select value from json_each(?))`, values: [JSON.stringify(values)] };
}

function newestFirst(a: Values, b: Values): number {
  return (b[0] as number) - (a[0] as number);
}
