/** What a cleanup ends beside jobs, told before it does: what they own, and what is due by itself. Nothing is touched. */
import { type Finalizer, isHeld } from '../core/owned.js';
import { byIds } from '../core/pages.js';
import type { Store, StoredJob } from '../core/store.js';
import type { System } from '../core/system.js';
import { ownedBy, ownersOf, whyOthers } from './freeing.js';

export interface Foreseen {
  /** Something that it owns is held, or is another process's to end. */
  readonly stays: boolean;
  /** What it owns and does end. */
  readonly things: readonly StoredJob[];
}

export interface Foresight {
  ofOwner(id: string): Promise<Foreseen>;
  /** Of things that are due, those that end. */
  ofDue(ids: readonly string[]): Promise<readonly StoredJob[]>;
}

export function foresightOn(store: Store, system: System, finalizer: Finalizer): Foresight {
  return {
    async ofOwner(id) {
      const records = await ownedBy(store, id);
      if (records.some((record) => isHeld(record, system.now()))) return { stays: true, things: [] };
      const things = records.filter((record) => whyOthers(finalizer, record) === null);
      return { stays: things.length < records.length, things };
    },
    async ofDue(ids) {
      const records = await byIds(store, ids);
      const owners = await ownersOf(store, records);
      return records.filter((record) => {
        const owner = owners.get(record.ownedBy!);
        const held = [record, owner].some((job) => job && isHeld(job, system.now()));
        return !held && whyOthers(finalizer, record) === null && !finalizer.isInUse(record, owner);
      });
    },
  };
}
