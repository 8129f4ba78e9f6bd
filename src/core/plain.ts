/** Whether a job is plain, and whether two are alike, by the table of columns. Asked of every job, some several times. */
import { type BatchStore, headColumns, type Kept, keptRare, rareColumns } from './columns.js';
import type { NewJob } from './stored-job.js';

type Test<T extends readonly unknown[]> = (...of: T) => boolean;
const yes = (): boolean => true;
/** A loop costs ten times as much as calls one after the other, which are inlined: each of them has a test of its own. */
const rest = <T extends readonly unknown[]>(tests: readonly Test<T>[]): Test<T> =>
  tests.length === 0 ? yes : (...of) => tests.every((test) => test(...of));

/** Whether a job has none of what is kept and rare, be it new or stored. */
export const isPlainKept = ((): ((job: Kept) => boolean) => {
  const tests = keptRare.map(({ isPlain }) => isPlain as unknown as (job: Kept) => boolean);
  const [a = yes, b = yes, c = yes, d = yes, e = yes, f = yes, g = yes, h = yes, i = yes, j = yes, ...others] = tests;
  const more = rest(others);
  return (x) => a(x) && b(x) && c(x) && d(x) && e(x) && f(x) && g(x) && h(x) && i(x) && j(x) && more(x);
})();

/** Whether a job may be of a batch. */
export function isPlainOn(store: BatchStore): (job: NewJob) => boolean {
  const tests = rareColumns(store).map(({ isPlain }) => isPlain);
  const [a = yes, b = yes, c = yes, d = yes, e = yes, f = yes, g = yes, h = yes, ...others] = tests;
  const [i = yes, j = yes, k = yes, l = yes, m = yes, n = yes, ...last] = others;
  const more = rest(last);
  const isPlainToo = (x: NewJob): boolean => i(x) && j(x) && k(x) && l(x) && m(x) && n(x) && more(x);
  return (x) => a(x) && b(x) && c(x) && d(x) && e(x) && f(x) && g(x) && h(x) && isPlainToo(x);
}

/** Whether two jobs may share the head of a batch; one may be stored, where all of the head is kept. */
export function isAlikeOn<J extends Kept = NewJob>(store: BatchStore): (job: NewJob, like: J) => boolean {
  const tests = headColumns(store).map(({ head }) => head.isSame as unknown as (job: NewJob, like: J) => boolean);
  const [a = yes, b = yes, c = yes, d = yes, e = yes, f = yes, ...others] = tests;
  const [g = yes, h = yes, i = yes, j = yes, k = yes, l = yes, ...last] = others;
  const more = rest(last);
  const isAlikeToo = (x: NewJob, y: J): boolean =>
    g(x, y) && h(x, y) && i(x, y) && j(x, y) && k(x, y) && l(x, y) && more(x, y);
  return (x, y) => a(x, y) && b(x, y) && c(x, y) && d(x, y) && e(x, y) && f(x, y) && isAlikeToo(x, y);
}
