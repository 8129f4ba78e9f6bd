/** The part of a cleanup that the store cannot do: what jobs own ends, and what lost its record too. */
import type { Logger } from '../core/job.js';
import { type Finalizer, type Freeing, isHeld } from '../core/owned.js';
import { byIds } from '../core/pages.js';
import { noFilter, type Store, type StoredJob } from '../core/store.js';
import type { System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import { isOthers, ownersOf } from './freeing.js';
import { orphansOn } from './orphans.js';

const postponeMs = 3_600_000;
const firstWaitMs = 60_000;
const longestWaitMs = 3_600_000;
const rememberedMax = 10_000;

export interface Ended {
  /** Owners that can go now, or things that went. */
  done: number;
  /** Things that went, alone or with their owners. */
  things: number;
  /** Out of the way until later. */
  postponed: number;
  failures: number;
}

export interface Things {
  /** Frees jobs that the rules remove. One that cannot be freed is held for a while, so that others have their turn. */
  free(owners: readonly string[]): Promise<Ended>;
  /** Ends what is due. */
  endDue(records: readonly string[]): Promise<Ended>;
  /** Ends what has no record any more. */
  endOrphans(): Promise<Ended>;
}

export function thingsOn(parts: {
  readonly store: Store;
  readonly system: System;
  readonly logger: Logger;
  readonly finalizer: Finalizer;
  readonly freeing: Freeing;
}): Things {
  const { store, system, logger, finalizer, freeing } = parts;
  const failedBefore = new Map<string, number>();

  /** A minute, then twice as long each time. */
  function waitMs(id: string): number {
    const times = failedBefore.get(id) ?? 0;
    if (failedBefore.size >= rememberedMax) failedBefore.clear();
    failedBefore.set(id, times + 1);
    return Math.min(firstWaitMs * 2 ** times, longestWaitMs);
  }

  async function move(id: string, move: Parameters<Store['move']>[0]['move']): Promise<void> {
    await store.move({ filter: { ...noFilter, ids: [id] }, move, dryRun: false, cursor: null, limit: 1 });
  }

  /** Not one that somebody holds by now: a hold of ours would take the place of theirs. */
  async function holdForNow(id: string, ms: number, reason: string): Promise<void> {
    const [job] = await byIds(store, [id]);
    if (job && !isHeld(job, system.now())) await move(id, { kind: 'hold', reason, until: system.now() + ms });
  }

  function tell(id: string, error: Error): void {
    logger.warn('What a job owns could not be ended; the job stays, and it is tried again', {
      id,
      error: error.message,
    });
  }

  async function free(owners: readonly string[]): Promise<Ended> {
    const { freed, held, failed, things } = await freeing.free(owners);
    for (const id of freed) failedBefore.delete(id);
    let failures = 0;
    for (const [id, error] of failed) {
      if (!isOthers(error)) {
        failures += 1;
        tell(id, error);
      }
      await holdForNow(id, isOthers(error) ? firstWaitMs : waitMs(id), error.message);
    }
    for (const id of held) await holdForNow(id, postponeMs, 'something that it owns is held');
    return { done: freed.length, things, postponed: held.length + failed.size, failures };
  }

  async function endDue(ids: readonly string[]): Promise<Ended> {
    const records = (await byIds(store, ids)).filter(({ type }) => finalizer.types.has(type));
    const owners = await ownersOf(store, records);
    const waits = (record: StoredJob): boolean =>
      finalizer.isElsewhere(record) || finalizer.isInUse(record, owners.get(record.ownedBy!));
    const { freed, held, failed, things } = await freeing.endThings(records.filter((record) => !waits(record)));
    for (const id of freed) failedBefore.delete(id);
    for (const id of [...held, ...records.filter(waits).map((record) => record.id)]) await postpone(id, postponeMs);
    for (const [id, error] of failed) {
      tell(id, error);
      await postpone(id, waitMs(id));
    }
    return { done: freed.length, things, postponed: records.length - freed.length, failures: failed.size };
  }

  async function postpone(id: string, inMs: number): Promise<void> {
    await move(id, { kind: 'reschedule', when: { inMs }, priority: null });
  }

  async function endOrphans(): Promise<Ended> {
    const ended: Ended = { done: 0, things: 0, postponed: 0, failures: 0 };
    for await (const thing of orphansOn(store, finalizer)) {
      try {
        await thing.end();
        ended.done += 1;
      } catch (error) {
        ended.failures += 1;
        logger.warn('A file without an owner could not be deleted; it is tried again', {
          id: thing.id,
          error: describeThrown(error).message,
        });
      }
    }
    return ended;
  }

  return { free, endDue, endOrphans };
}
