/**
 * What one attempt makes. The record is written first, under the claim; then the bytes; then the record says that they
 * are there; then what had the name before goes. A crash anywhere leaves a record that is due, or that goes with its job.
 */
import type { Artifact, ArtifactBody, ArtifactOptions } from '../core/artifact.js';
import type { BlobInfo, BlobStore, TempFolders } from '../core/blobs.js';
import { isUnknown } from '../core/deadlines.js';
import { LastoutError } from '../core/errors.js';
import { harmlessSignal } from '../core/harmless.js';
import type { Logger } from '../core/job.js';
import type { Asker, Belongings, Freed, Freeing } from '../core/owned.js';
import { byIds, everyPage } from '../core/pages.js';
import { type MoveOutcome, type Move, type NewJob, noFilter, type Store, type StoredJob } from '../core/store.js';
import type { System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import { chunksOf, metered } from './chunks.js';
import type { Allowance, quotaOf } from './quota.js';
import {
  type ArtifactFields,
  artifactJob,
  artifactType,
  memoOf,
  readArtifact,
  readFields,
  tempJob,
} from './records.js';

export interface Making {
  readonly store: Store;
  readonly system: System;
  readonly logger: Logger;
  readonly blobs: BlobStore;
  readonly temp: TempFolders;
  readonly quota: ReturnType<typeof quotaOf>;
  readonly freeing: Freeing;
}

/** An artifact of this job that is in its place. */
interface Kept {
  readonly id: string;
  readonly bytes: number;
  /** It stays, though its name was put again. */
  readonly isHeld: boolean;
}

type KeptByName = Map<string, readonly Kept[]>;

const artifactsMax = 1_000;
const foldersMax = 100;

export function belongingsOf(making: Making, asker: Asker): Belongings {
  const { store, system, logger, blobs, temp, quota, freeing } = making;
  /** Only this attempt adds to what its job owns, so it is looked up once. */
  let kept: Promise<KeptByName> | null = null;
  /** Names that are put for the first time. */
  let coming = 0;
  /** Puts of one name go one after the other: the last one stays. */
  const lines = new Map<string, Promise<unknown>>();
  const folders: string[] = [];
  const lost = lossOf(asker, logger);

  async function put(name: string, body: ArtifactBody, options: ArtifactOptions = {}): Promise<Artifact> {
    const fields = readFields(name, typeof body === 'string', options, system);
    const chunks = chunksOf(body);
    const before = lines.get(fields.name) ?? Promise.resolve();
    const mine = before.then(() => putNow(fields, chunks));
    const quiet = mine.catch(() => undefined);
    lines.set(fields.name, quiet);
    void quiet.then(() => lines.get(fields.name) === quiet && lines.delete(fields.name));
    return mine;
  }

  async function putNow(fields: ArtifactFields, chunks: AsyncIterable<Uint8Array>): Promise<Artifact> {
    kept ??= keptBy(making, asker.id).catch((error: unknown) => {
      kept = null;
      throw error;
    });
    const all = await kept;
    const older = all.get(fields.name) ?? [];
    const news = older.length === 0 ? 1 : 0;
    if (news > 0 && all.size + coming >= artifactsMax)
      throw new LastoutError('ARTIFACT_QUOTA', `Job ${asker.id} has ${artifactsMax} artifacts already.`);
    coming += news;
    const id = await make(fields, chunks, all).finally(() => {
      coming -= news;
    });
    await replaced(all, fields.name, older);
    return stored(id);
  }

  /** Its id. What it takes is reserved until `all` has it, or until it is undone. */
  async function make(fields: ArtifactFields, chunks: AsyncIterable<Uint8Array>, all: KeptByName): Promise<string> {
    const { name, ttlMs } = fields;
    const id = system.id();
    const began = system.now();
    await intend(artifactJob(id, asker, fields));
    let allowance: Allowance | null = null;
    try {
      allowance = await quota.allow(asker.id, () => sizeWithout(all, name));
      const info = await write(id, chunks, allowance);
      await confirm(id, info, ttlMs, began);
      all.set(name, [{ id, bytes: info.bytes, isHeld: false }, ...(all.get(name) ?? [])]);
      allowance.done('kept');
      return id;
    } catch (error) {
      await undo(id, () => blobs.delete(id));
      allowance?.done('undone');
      throw error;
    }
  }

  /** An id that the library made may be sent twice: the second time it answers `existing`. */
  async function intend(job: NewJob): Promise<void> {
    lost.throwIfAborted();
    const [answer] = await twice(() => store.insert([job], { atomic: false }));
    if (answer?.outcome === 'refused') throw new LastoutError(answer.code, answer.message, answer.details);
  }

  async function write(id: string, chunks: AsyncIterable<Uint8Array>, allowance: Allowance): Promise<BlobInfo> {
    const given = metered(chunks, allowance.take);
    const written = await blobs.put(id, given.chunks, { maxBytes: allowance.maxBytes, signal: lost });
    const { bytes, digest } = given.total();
    if (written.bytes === bytes && written.digest === digest) return { bytes, digest };
    const message = `${bytes} bytes were given for artifact ${id}, but others were stored; they were removed again.`;
    throw new LastoutError('DIGEST_MISMATCH', message, { id });
  }

  async function confirm(id: string, info: BlobInfo, ttlMs: number | null, began: number): Promise<void> {
    const { epoch, owner } = asker;
    const memo = memoOf(info, ttlMs === null ? null : Math.max(0, system.now() - began) + ttlMs);
    const when = ttlMs === null ? null : { inMs: ttlMs };
    const outcome = await twice(() => moveOne(store, id, { kind: 'confirm', memo, when, under: { epoch, owner } }));
    if (outcome === 'confirmed') return;
    const fault = outcome === 'stale' ? 'its job is no longer held by this worker' : 'writing it took too long';
    throw new LastoutError('STALE_CLAIM', `The artifact was not kept: ${fault}.`);
  }

  async function stored(id: string): Promise<Artifact> {
    const [record] = await byIds(store, [id]);
    const artifact = record && readArtifact(record, Number.NEGATIVE_INFINITY);
    if (artifact) return artifact;
    throw new LastoutError('STALE_CLAIM', `The artifact was not kept: its job was removed meanwhile.`);
  }

  /** What had the name before goes, unless it is held. If it cannot go now, the next sweep takes it. */
  async function replaced(all: KeptByName, name: string, older: readonly Kept[]): Promise<void> {
    if (older.length === 0) return;
    try {
      const { freed, held, failed } = await twice(() => endAll(older.map(({ id }) => id)));
      const left = all.get(name)!.filter(({ id }) => !freed.includes(id));
      all.set(name, left.map((one) => ({ ...one, isHeld: held.includes(one.id) }))); // biome-ignore format: one thing
      for (const [id, error] of failed) tellLeft(id, error);
    } catch (error) {
      for (const { id } of older) tellLeft(id, error);
    }
  }

  async function endAll(ids: readonly string[]): Promise<Freed> {
    const { jobs } = await store.find({ filter: { ...noFilter, ids }, cursor: null, limit: ids.length });
    const { freed, ...others } = await freeing.endThings(jobs);
    const gone = ids.filter((id) => !jobs.some((job) => job.id === id));
    return { ...others, freed: [...freed, ...gone] };
  }

  function tellLeft(id: string, error: unknown): void {
    logger.warn('A replaced artifact could not be deleted; the next sweep tries again', about(id, error));
  }

  /** Bytes first. What fails here is due within the hour, or goes with the job. */
  async function undo(id: string, deleteThing: () => Promise<void>): Promise<void> {
    try {
      await deleteThing();
      await moveOne(store, id, { kind: 'remove', force: false });
    } catch (error) {
      logger.warn('Something that was begun could not be taken back; the next sweep tries again', about(id, error));
    }
  }

  async function tempDir(): Promise<string> {
    if (folders.length >= foldersMax)
      throw new LastoutError('ARTIFACT_QUOTA', `This attempt has ${foldersMax} temporary folders already.`);
    const id = system.id();
    await intend(tempJob(id, asker, temp));
    folders.push(id);
    try {
      return await temp.make(id);
    } catch (error) {
      folders.splice(folders.indexOf(id), 1);
      await undo(id, () => temp.delete(id, temp.within));
      throw error;
    }
  }

  return {
    put,
    tempDir,
    async end() {
      await Promise.all(folders.splice(0).map((id) => undo(id, () => temp.delete(id, temp.within))));
    },
  };
}

/** Another worker may have the job by now, or nobody: what is under way is called off. No other reason ends it. */
function lossOf({ id, signal }: Asker, logger: Logger): AbortSignal {
  const lost = new AbortController();
  harmlessSignal(lost.signal, (error) => logger.error('An abort listener of the blob store threw', about(id, error)));
  const look = (): void => {
    const reason: unknown = signal.reason;
    if (reason instanceof LastoutError && reason.code === 'STALE_CLAIM') lost.abort(reason);
  };
  if (signal.aborted) look();
  else signal.addEventListener('abort', look, { once: true });
  return lost.signal;
}

async function keptBy({ store }: Making, jobId: string): Promise<KeptByName> {
  const kept: KeptByName = new Map();
  for await (const record of ownedBy(store, jobId, artifactType)) {
    const artifact = readArtifact(record, Number.NEGATIVE_INFINITY);
    if (!artifact) continue;
    const { id, name, bytes } = artifact;
    kept.set(name, [...(kept.get(name) ?? []), { id, bytes, isHeld: false }]);
  }
  return kept;
}

/** Newest first. */
export function ownedBy(store: Store, jobId: string, type: string): AsyncIterable<StoredJob> {
  const filter = { ...noFilter, ownedBy: jobId, types: [type], states: ['pending' as const] };
  return everyPage(store, filter, 200);
}

function sizeWithout(all: KeptByName, name: string): number {
  let sum = 0;
  for (const [other, list] of all) for (const { bytes, isHeld } of list) if (other !== name || isHeld) sum += bytes;
  return sum;
}

/** Undefined: there is no such job. */
export async function moveOne(store: Store, id: string, move: Move): Promise<MoveOutcome | undefined> {
  const { items } = await store.move({
    filter: { ...noFilter, ids: [id] },
    move,
    dryRun: false,
    cursor: null,
    limit: 1,
  });
  return items[0]?.outcome;
}

/** For what may be done again: an answer that was lost is asked for a second time. */
async function twice<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!isUnknown(error)) throw error;
    return call();
  }
}

function about(id: string, error: unknown): object {
  return { id, error: describeThrown(error).message };
}
