/** A retry behind a codec: the copy has another id, so its input is coded anew. */
import { whyUnreadable } from '../core/coded.js';
import type { Logger } from '../core/job.js';
import { moveEvery } from '../core/pages.js';
import type { Move, Moved, MoveRequest, Store, StoredJob } from '../core/store.js';
import type { Texts } from './texts.js';

type Retry = Move & { kind: 'retry' };
type Copies = NonNullable<Retry['copies']>;

/** UTF-16 units of the inputs that one call brings. */
const inputsMax = 8 * 1024 * 1024;

/**
 * What is finished stays as it is, so that the jobs may be looked at first. One whose input cannot be read or coded is skipped: its copy
 * could not run.
 */
export async function retryAnew(
  store: Store,
  texts: Texts,
  { filter, cursor, limit, dryRun }: MoveRequest,
  move: Retry,
  logger: Logger,
): Promise<Moved> {
  const { jobs, next } = await pageOf(store, { filter, cursor, limit });
  if (jobs.length === 0) return { items: [], next };
  const inputs = new Map(jobs.map(({ id, input }) => [id, input]));
  const seen = await moveEvery(store, { filter: { ...filter, ids: [...inputs.keys()] }, move, dryRun: true, limit });
  // What this call has made when it was sent before has its id.
  const used = new Set(seen.map(({ newId }) => newId));
  const newIds = move.newIds.filter((id) => !used.has(id)).values();
  const copies: { [id: string]: Copies[string] } = {};
  for (const { id } of seen.filter(isToMake)) {
    const newId = newIds.next().value;
    const input = newId === undefined ? null : anew(texts, { id, input: inputs.get(id)! }, newId, logger);
    if (input !== null) copies[id] = { newId: newId!, input };
  }
  const ids = Object.keys(copies);
  const request = { filter: { ...filter, ids }, move: { ...move, copies }, dryRun, limit };
  const made = ids.length === 0 ? [] : await moveEvery(store, request);
  const answers = new Map(made.map((item) => [item.id, item]));
  const items = seen.flatMap((item): Moved['items'] => {
    if (!isToMake(item)) return [item];
    if (!(item.id in copies)) return [{ id: item.id, outcome: 'skipped' }];
    const answer = answers.get(item.id);
    return answer ? [answer] : []; // gone since it was found
  });
  return { items, next };
}

const isToMake = ({ outcome, newId }: Moved['items'][number]): boolean => outcome === 'retried' && newId === undefined;

/** Short where the inputs are long. */
async function pageOf(store: Store, request: Parameters<Store['find']>[0]): ReturnType<Store['find']> {
  const page = await store.find(request);
  let length = 0;
  const fitting = page.jobs.findIndex(({ input }) => (length += input.length) > inputsMax);
  return fitting < 1 ? page : store.find({ ...request, limit: fitting });
}

function anew(
  texts: Texts,
  { id, input }: Pick<StoredJob, 'id' | 'input'>,
  newId: string,
  logger: Logger,
): string | null {
  const plain = texts.open(input, { id, field: 'input' });
  const why = whyUnreadable(plain);
  if (why === null) return texts.trySeal(plain, { id: newId, field: 'input' });
  logger.error('The codec failed', { what: 'the input of a job to retry', id, error: why });
  return null;
}
