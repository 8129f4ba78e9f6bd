/** The part of a cleanup that the store cannot do: what jobs own ends, and what lost its record too. */
import type { Logger } from '../core/job.js';
import type { Finalizer, Freed, Freeing } from '../core/owned.js';
import { byIds, moveEvery } from '../core/pages.js';
import { noFilter, type Store, type StoredJob } from '../core/store.js';
import type { System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import { isOthers, ownersOf } from './freeing.js';
import { orphansOn } from './orphans.js';
import { termMs } from './pass.js';

const firstWaitMs = 60_000;
const longestWaitMs = 3_600_000;
const batchMax = 200;
const rememberedMax = 10_000;

export interface Ended {
  /** Owners that can go now, or things that went. */
  done: number;
  /** Things that went, alone or with their owners. */
  things: number;
  /** Out of the way for the rest of the pass. */
  postponed: number;
  failures: number;
}

/**
 * What cannot be ended is set aside, so that others have their turn, and comes back when the pass is over: another process
 * may be able to end it. What failed is tried again after a while, or when somebody asks for it.
 */
export interface Things {
  /** Frees jobs that the rules remove. */
  free(owners: readonly string[], isAsked: boolean): Promise<Ended>;
  /** Ends what is due. */
  endDue(records: readonly string[], isAsked: boolean): Promise<Ended>;
  /** Ends what has no record any more. */
  endOrphans(): Promise<Ended>;
  /** The pass is over. Never rejects. */
  putBack(): Promise<void>;
}

export function thingsOn(parts: {
  readonly store: Store;
  readonly system: System;
  readonly logger: Logger;
  readonly finalizer: Finalizer;
  readonly freeing: Freeing;
}): Things {
  const { store, system, logger, finalizer, freeing } = parts;
  /** What failed here, and how long it is left alone. */
  const failedBefore = new Map<string, { readonly times: number; readonly notBefore: number }>();
  /** Of this pass. */
  const aside = new Set<string>();

  function mayTry(id: string, isAsked: boolean): boolean {
    if (aside.has(id)) return false;
    return isAsked || system.now() >= (failedBefore.get(id)?.notBefore ?? 0);
  }

  /** A minute, then twice as long each time. */
  function failed(id: string, error: Error): void {
    const times = failedBefore.get(id)?.times ?? 0;
    if (failedBefore.size >= rememberedMax) failedBefore.clear();
    const waitMs = Math.min(firstWaitMs * 2 ** times, longestWaitMs);
    failedBefore.set(id, { times: times + 1, notBefore: system.now() + waitMs });
    logger.warn('What a job owns could not be ended; the job stays, and it is tried again', {
      id,
      error: error.message,
    });
  }

  /** A process that dies meanwhile leaves them so for no longer than its term. */
  async function setAside(ids: readonly string[]): Promise<void> {
    for (const id of ids) aside.add(id);
    await deferAll(ids, termMs);
  }

  async function deferAll(ids: readonly string[], forMs: number | null): Promise<void> {
    for (let at = 0; at < ids.length; at += batchMax) {
      const filter = { ...noFilter, ids: ids.slice(at, at + batchMax) };
      await moveEvery(store, { filter, move: { kind: 'defer', forMs }, dryRun: false, limit: batchMax });
    }
  }

  async function putBack(): Promise<void> {
    const ids = [...aside];
    aside.clear();
    try {
      await deferAll(ids, null);
    } catch (error) {
      logger.warn('What was set aside by a cleanup comes back later', { error: describeThrown(error).message });
    }
  }

  async function free(owners: readonly string[], isAsked: boolean): Promise<Ended> {
    const answer = await freeing.free(owners.filter((id) => mayTry(id, isAsked)));
    return settle(owners, answer);
  }

  async function endDue(ids: readonly string[], isAsked: boolean): Promise<Ended> {
    const records = (await byIds(store, ids)).filter(({ type }) => finalizer.knows(type));
    const owners = await ownersOf(store, records);
    // What could be ended of a job that was set aside has ended.
    const waits = (record: StoredJob): boolean =>
      aside.has(record.ownedBy!) ||
      finalizer.isElsewhere(record) ||
      finalizer.isInUse(record, owners.get(record.ownedBy!));
    const answer = await freeing.endThings(records.filter((one) => mayTry(one.id, isAsked) && !waits(one)));
    return settle(
      records.map(({ id }) => id),
      answer,
    );
  }

  /** Whatever is not done is set aside. */
  async function settle(ids: readonly string[], answer: Freed): Promise<Ended> {
    for (const id of answer.freed) failedBefore.delete(id);
    let failures = 0;
    for (const [id, error] of answer.failed) {
      if (isOthers(error)) continue;
      failures += 1;
      failed(id, error);
    }
    const done = new Set(answer.freed);
    const rest = ids.filter((id) => !done.has(id));
    await setAside(rest);
    return { done: done.size, things: answer.things, postponed: rest.length, failures };
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

  return { free, endDue, endOrphans, putBack };
}
