/** Whether an id stands for a job, or stood for one whose tombstone is there. */
import type { Tables } from '../local/tables.js';
import type { Session, StepPart } from './session.js';

export interface KnownIds extends Pick<Tables, 'isKnown'>, StepPart {
  /** Certainly not known, if nobody else has written. */
  isNew(id: string): boolean;
  /** Looks for many at once. */
  expect(ids: readonly string[]): void;
  /** A row with this id is added in this step. */
  added(id: string): void;
}

export function createKnownIds({ names, sql }: Session): KnownIds {
  const among = (where: string): string =>
    ['jobs', 'tombs'].map((table) => `exists (select 1 from ${names(table)} where ${where})`).join(' or ');
  const select = sql(`select ${among('id = ?')} as known, ${among('id > ?')} as later`);
  const selectFrom = sql(`select ${among('id >= ?')} as known`);
  const selectMany = sql(`select value from json_each(?) where ${among('id = json_each.value')}`);
  const known = new Map<string, boolean>();
  /** When this was looked for, no id from here on was known; none above the other was added since. */
  let newFrom: string | null = null;
  let newAbove = '';
  const isNew = (id: string): boolean => newFrom !== null && id >= newFrom && id > newAbove;

  return {
    begin: () => known.clear(),
    isNew,
    reread() {
      newFrom = null;
      newAbove = '';
    },
    isKnown(id) {
      if (isNew(id)) return false;
      const found = known.get(id);
      if (found !== undefined) return found;
      const [isThere, isLater] = select.get(id, id, id, id)!;
      if (isThere === 0 && isLater === 0) newFrom = id;
      return isThere === 1;
    },
    expect(ids) {
      // Ids that the library makes grow with time, so mostly one look suffices, or none.
      let least = ids[0]!;
      for (const id of ids) if (id < least) least = id;
      if (isNew(least)) return;
      if (selectFrom.get(least, least)?.[0] === 0) {
        newFrom = least;
        return;
      }
      for (const id of ids) known.set(id, false);
      for (const [id] of selectMany.all(JSON.stringify(ids))) known.set(id as string, true);
    },
    added(id) {
      if (known.size > 0) known.set(id, true);
      if (id > newAbove) newAbove = id;
    },
  };
}
