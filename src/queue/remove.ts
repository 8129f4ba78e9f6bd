/** Removing by hand. What a job owns goes first, so this may take more than one step; each of them can be repeated. */
import { openCursor, sealCursor } from '../core/cursor.js';
import type { Freeing } from '../core/owned.js';
import { moveEvery } from '../core/pages.js';
import { type Move, noFilter, type Store, type StoredJob } from '../core/store.js';
import type { Act, Acted } from './acts.js';
import { isThing, mayBeThings, readWhich, type Which } from './filter.js';

export type Removed = Acted<'removed' | 'held' | 'not_finished'>;

type Item = Removed['items'][number];
type Answer = Item['outcome'] | 'owing';

interface Asked {
  readonly which: Which;
  readonly options: Act;
  readonly move: Move & { readonly kind: 'remove' };
}

/** A handler that runs may put more while its job is freed; with each round it has less time for it. */
const roundsMax = 5;
const itemsMax = 1_000;

/** `send` is the plain way: one step. */
export async function removeWithAllTheyOwn(
  store: Store,
  freeing: Freeing,
  { which, options, move }: Asked,
  send: () => Promise<Acted<Answer>>,
): Promise<Removed> {
  const dryRun = options.dryRun ?? false;

  /** Jobs whose answer was that they own something, and that wait no more, are freed of it, and asked for again. */
  async function freed(items: Acted<Answer>['items']): Promise<Item[]> {
    const outcomes = new Map<string, Answer>(items.map(({ id, outcome }) => [id, outcome]));
    const owing = (): string[] => [...outcomes].flatMap(([id, outcome]) => (outcome === 'owing' ? id : []));
    for (let round = 0; !dryRun && round < roundsMax && owing().length > 0; round++) {
      const answer = await freeing.free(owing());
      if (answer.freed.length === 0) break;
      for (const id of answer.freed) outcomes.set(id, 'removed'); // one that is not found has gone meanwhile
      for (const { id, outcome } of await removeIds(answer.freed)) outcomes.set(id, outcome);
    }
    // What cannot be ended holds its job.
    for (const id of owing()) outcomes.set(id, dryRun ? 'removed' : 'held');
    return items.map(({ id }) => ({ id, outcome: outcomes.get(id) as Item['outcome'] }));
  }

  async function removeIds(ids: readonly string[]): Promise<Acted<Answer>['items']> {
    if (ids.length === 0) return [];
    const filter = { ...noFilter, ids };
    return (await moveEvery(store, { filter, move, dryRun, limit: itemsMax })) as Acted<Answer>['items'];
  }

  /** Records of things, where somebody names them: the thing ends first. */
  async function endThings(things: readonly StoredJob[]): Promise<Item[]> {
    const ended = dryRun ? null : await freeing.endThings(things);
    const stays = new Set([...(ended?.held ?? []), ...(ended?.failed.keys() ?? [])]);
    return things.map(({ id }) => ({ id, outcome: stays.has(id) ? 'held' : 'removed' }));
  }

  const filter = readWhich(which, 'remove');
  if (mayBeThings(filter)) {
    const { jobs, next } = await store.find({ filter, cursor: openCursor('remove', options.cursor), limit: itemsMax });
    const isLive = (job: StoredJob): boolean => isThing(job) && job.state === 'pending';
    if (jobs.some(isLive)) {
      const others = jobs.filter((job) => !isLive(job)).map(({ id }) => id);
      const items = [...(await endThings(jobs.filter(isLive))), ...(await freed(await removeIds(others)))];
      return { matched: items.length, items, next: sealCursor('remove', next) };
    }
  }
  const page = await send();
  return { ...page, items: await freed(page.items) };
}
