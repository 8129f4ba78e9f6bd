/**
 * Find: live and finished rows that pass a filter, newest first. The statements are put together from fixed fragments;
 * every value is a parameter.
 */
import type { JobFilter } from '../../core/store.js';
import type { Row, Tables } from '../local/tables.js';
import { limited, type Values } from './driver.js';
import { mergePages, type ReadPage } from './merge.js';
import type { Session } from './session.js';
import { type Condition, createSources, type Lists, liveStates, type Source } from './sources.js';

export interface ScanParts extends Lists {
  live(seqs: readonly number[]): Row[];
  finished(seqs: readonly number[]): Row[];
}

export function createScan(session: Session, parts: ScanParts): Pick<Tables, 'scan'> {
  const sourcesOf = createSources(session, parts);

  /** Pages of `[seq, whether it passes]`. */
  function reader({ from, seq, inRun, lead, checks }: Source, below: number): ReadPage {
    const passes = checks.length === 0 ? '1' : textOf(checks);
    const bounds = [`${seq} < ?`, ...(inRun ? [inRun] : [])].map((text): Condition => ({ text, values: [] }));
    const order = inRun ? `${seq} desc, j.seq desc` : `${seq} desc`;
    const statement = session.sql(
      `select j.seq, ${passes} as passes from ${from} where ${textOf([...lead, ...bounds])} order by ${order} ${limited}`,
    );
    const values = [...checks, ...lead].flatMap((condition) => condition.values);
    return (after, size) => statement.all(...values, ...bounds.map(() => (after ? after[0]! : below)), size);
  }

  function rowsOf(seqs: readonly number[], filter: JobFilter): Row[] {
    if (seqs.length === 0) return [];
    const found = new Map<number, Row>();
    if (liveStates(filter) !== 'none') for (const row of parts.live(seqs)) found.set(row.seq, row);
    if (found.size < seqs.length) for (const row of parts.finished(seqs)) found.set(row.seq, row);
    return seqs.map((seq) => found.get(seq)!);
  }

  return {
    scan({ filter, before, limit, examinedMax, now }) {
      const seqs: number[] = [];
      const sources = sourcesOf(filter, now);
      let examined = 0;
      let next: number | null = before;
      // The first look suffices where most rows pass; where few do, the looks get longer.
      for (let size = limit; next !== null && seqs.length < limit && examined < examinedMax; size *= 2) {
        const asked = Math.min(size, examinedMax - examined);
        const below: number = next;
        const readers = sources.map((source) => reader(source, below));
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

function newestFirst(a: Values, b: Values): number {
  return (b[0] as number) - (a[0] as number);
}
