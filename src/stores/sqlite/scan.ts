/**
 * Find: live and finished rows that pass a filter, newest first. The statement is put together from fixed fragments;
 * every value is a parameter. Each table is read through one leading condition that an index serves in the order of
 * seq; the other conditions are marked with `+`, so that the planner does not choose among them.
 */
import { type FinishedState, finishedStates } from '../../core/job.js';
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
  expiredSeqs(): readonly number[];
}

/** A filter with more names than this is checked row by row: a reader per name would read too much ahead. */
const readersMax = 32;

export function createScan({ names, sql }: Session, sources: ScanSources): Pick<Tables, 'scan'> {
  const live = names('jobs');
  const done = names('done');

  const reader =
    (table: string, conditions: readonly Condition[]): ReadPage =>
    (after, size) => {
      const texts = conditions.map(({ text }) => text);
      const statement = sql(`select seq from ${table} where ${texts.join(' and ')} order by seq desc ${limited}`);
      const values = conditions.flatMap((condition) => condition.values);
      // The bound of the first page is the last condition; later pages go on from their key.
      if (after) values[values.length - 1] = after[0]!;
      return statement.all(...values, size);
    };

  function liveReaders(filter: JobFilter, below: Condition): ReadPage[] {
    const wanted = liveStates(filter);
    if (wanted === 'none') return [];
    const chosen = wanted === 'all' ? [] : [oneOf('seq', candidates(filter))];
    const leads: Lead[] = wanted === 'all' ? leadsOf(filter) : [{ conditions: [], settles: [] }];
    return leads.map(({ conditions, settles }) =>
      reader(live, [...conditions, ...chosen, ...others(filter, settles), below]),
    );
  }
  function candidates({ states }: JobFilter): number[] {
    const held = states!.includes('processing') ? sources.heldSeqs() : [];
    const expired = states!.includes('expired') ? sources.expiredSeqs() : [];
    return [...held, ...expired];
  }
  function doneReaders(filter: JobFilter, below: Condition): ReadPage[] {
    const states = filter.states?.filter(isFinished) ?? null;
    if (states?.length === 0) return [];
    return doneLeadsOf(filter, states).map(({ conditions, settles }) => {
      const state = states === null || settles.includes('states') ? [] : [oneOf('+state', states.map(stateNumber))];
      return reader(done, [...conditions, ...state, ...others(filter, settles), below]);
    });
  }

  return {
    scan(filter, beforeSeq, limit) {
      const below: Condition = { text: 'seq < ?', values: [beforeSeq] };
      const inLive = liveReaders(filter, below);
      const readers = [...inLive, ...doneReaders(filter, below)];
      const seqs = mergePages(readers, newestFirst, limit).map(([seq]) => seq as number);
      if (seqs.length === 0) return [];
      const found = new Map<number, Row>();
      if (inLive.length > 0) for (const row of sources.live(seqs)) found.set(row.seq, row);
      if (found.size < seqs.length) for (const row of sources.finished(seqs)) found.set(row.seq, row);
      return seqs.map((seq) => found.get(seq)!);
    },
  };
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
  if (ids !== null && !settled.includes('ids')) conditions.push(oneOf('+id', ids));
  if (types !== null && !settled.includes('types')) conditions.push(oneOf('+type', types));
  if (queues !== null) conditions.push(oneOf('+queue', queues));
  if (subject !== null && !settled.includes('subject')) conditions.push(equal('+subject', subject));
  if (key !== null && !settled.includes('key')) conditions.push(equal('+key', key));
  if (source !== null) conditions.push(equal('+source', source));
  if (before !== null) conditions.push({ text: '+created_at < ?', values: [before] });
  if (after !== null) conditions.push({ text: '+created_at > ?', values: [after] });
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
