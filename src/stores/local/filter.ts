/** Whether a row passes a filter, its ids excepted. Its states select only between live and each finished state: who has a view of it decides. */
import { askedColumns } from '../../core/columns.js';
import { systemQueue } from '../../core/names.js';
import type { JobFilter } from '../../core/store.js';
import type { Row } from './tables.js';

export function passes(row: Row, filter: JobFilter): boolean {
  const { states, types, queues, before, after } = filter;
  if (!filter.system && row.queue === systemQueue) return false;
  const live = row.state === null;
  if (
    states !== null &&
    !(live ? states.some((s) => s === 'pending' || s === 'processing' || s === 'expired') : states.includes(row.state!))
  )
    return false;
  if (types !== null && !types.includes(row.type)) return false;
  if (queues !== null && !queues.includes(row.queue)) return false;
  if (!askedColumns.every((asked) => asked.passes(row, filter))) return false;
  return (before === null || row.createdAt < before) && (after === null || row.createdAt > after);
}
