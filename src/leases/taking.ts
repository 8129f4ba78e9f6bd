/**
 * Taking a lease. The record comes first, under a name that only this lease has; then the thing is made; then the record
 * says that it is there. What cannot be known to exist is never made a second time: its record is due, and it is destroyed
 * by its name.
 */
import { LastoutError } from '../core/errors.js';
import { harmlessSignal } from '../core/harmless.js';
import { toStoredText } from '../core/json.js';
import { infoMemo, leaseType } from '../core/lease-record.js';
import { policyText } from '../core/options.js';
import { checkKeep } from '../core/policy.js';
import { nameOf, type ResourceSteps } from '../core/resource.js';
import { byIds } from '../core/pages.js';
import type { NewJob, StoredJob, Under } from '../core/store.js';
import { systemJob } from '../core/system-job.js';
import { describeThrown } from '../core/thrown.js';
import { type LeaseParts, makeDue, moveOne, twice } from './parts.js';

/** A thing whose making was not confirmed by then is taken for lost, and destroyed. */
export const createDeadlineMs = 60_000;
/** Making it is called off a little earlier, so that what was made can still be confirmed. */
const createMs = 50_000;
/** One look at what there is. */
export const listMs = 30_000;
/** One try to destroy something. */
export const destroyMs = 30_000;

/** It never gives up, so no attempt is the last one. */
export const attemptsMax = 1_000_000_000;

export interface Asked {
  readonly kind: string;
  readonly steps: ResourceSteps<unknown>;
  readonly spec: unknown;
  /** How long it is held after it was made, unless it is renewed. */
  readonly ttlMs: number;
  readonly subject: string | null;
  /** Null: nobody's but the caller's. */
  readonly owner: (Under & { readonly id: string }) | null;
  /** Who waits for it no longer wants it. */
  readonly signal: AbortSignal | null;
}

export interface Taken {
  readonly record: StoredJob;
  /** By our monotonic clock, and not later than its time began to run. */
  readonly since: number;
}

/** A lease that is held. Rejects with what `create` threw where the thing is not there, else with LEASE_UNCERTAIN or LEASE_LOST. */
export async function take(parts: LeaseParts, asked: Asked): Promise<Taken> {
  const { kind } = asked;
  const id = parts.system.id();
  const name = nameOf(parts.namespace, kind, await parts.store.readIdentity(), id);
  const [inserted] = await twice(() => parts.store.insert([intent(id, name, asked)], { atomic: false }));
  if (inserted?.outcome === 'refused') throw new LastoutError(inserted.code, inserted.message, inserted.details);
  try {
    const memo = await make(parts, id, name, asked);
    const since = parts.system.monotonic();
    const record = await confirm(parts, id, memo, asked);
    parts.meters.add('leases_taken', 1, { kind });
    return { record, since };
  } catch (error) {
    // Where this fails too, it is due within the minute, or at the end of its ttl.
    await makeDue(parts, id).catch((undone: unknown) =>
      parts.logger.warn('A lease that was not taken ends later', { id, error: describeThrown(undone).message }),
    );
    throw error;
  }
}

function intent(id: string, name: string, { kind, subject, owner }: Asked): NewJob {
  return systemJob({
    id,
    type: leaseType(kind),
    when: { inMs: createDeadlineMs },
    maxAttempts: attemptsMax,
    subject,
    key: name,
    // Of what belonged to a job nothing stays longer than the job.
    policy: policyText({ backoff: null, timeoutMs: destroyMs, keep: checkKeep({ completed: owner ? 0 : '1h' }) }),
    ownedBy: owner && owner.id,
    under: owner && { id: owner.id, epoch: owner.epoch, owner: owner.owner },
  });
}

/** The memo of what was made. */
async function make(parts: LeaseParts, id: string, name: string, asked: Asked): Promise<string> {
  const { steps, spec, owner, signal } = asked;
  try {
    const info = await within(parts, createMs, signal, (called) =>
      steps.create(spec, { name, epoch: owner?.epoch ?? 0, signal: called, jobId: owner?.id ?? null }),
    );
    return infoMemo(toStoredText(info ?? null, `What create of resource "${asked.kind}" returned`));
  } catch (error) {
    // Without its driver it has made nothing, and `list` cannot tell either.
    if ((error as { code?: unknown } | null)?.code === 'DRIVER_MISSING') throw error;
    if (await isThere(parts, steps, name, owner ? null : signal)) throw uncertain(id, name, error);
    throw error;
  }
}

/** Also where nobody can tell. */
async function isThere(
  parts: LeaseParts,
  steps: ResourceSteps<unknown>,
  name: string,
  signal: AbortSignal | null,
): Promise<boolean> {
  try {
    const listed = await within(parts, listMs, signal, (called) => steps.list(called));
    return listed.some((one) => one.name === name);
  } catch {
    return true;
  }
}

function uncertain(id: string, name: string, cause: unknown): LastoutError {
  const message = `Whether "${name}" was made is not known: ${describeThrown(cause).message}. If it was, it ends by itself: it is destroyed as soon as that succeeds. Take another lease.`;
  return new LastoutError('LEASE_UNCERTAIN', message, { id, name }, cause);
}

async function confirm(parts: LeaseParts, id: string, memo: string, { ttlMs, owner }: Asked): Promise<StoredJob> {
  const under = owner && { epoch: owner.epoch, owner: owner.owner };
  const outcome = await twice(() => moveOne(parts, id, { kind: 'confirm', memo, when: { inMs: ttlMs }, under }));
  const [record] = outcome === 'confirmed' ? await byIds(parts.store, [id]) : [];
  if (record) return record;
  const why =
    outcome === 'stale' ? 'making it took too long, or its job is no longer held by this worker' : 'its record is gone';
  throw new LastoutError('LEASE_LOST', `Lease ${id} was lost before it was held: ${why}.`, { id });
}

/** Rejects after `ms`, or when the signal aborts, whether or not the work heeds its own. */
export async function within<T>(
  { system, logger }: LeaseParts,
  ms: number,
  signal: AbortSignal | null,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const called = new AbortController();
  harmlessSignal(called.signal, (error) =>
    logger.error('An abort listener of a resource threw', { error: describeThrown(error).message }),
  );
  let over: () => void = () => undefined;
  const cut = new Promise<never>((_resolve, reject) => {
    const stop = (reason: Error): void => {
      called.abort(reason);
      reject(reason);
    };
    const callOff = system.timer(ms, () => stop(new LastoutError('TIMEOUT', `No answer within ${ms} ms`)), 'hold');
    const abort = (): void => stop(signal!.reason as Error);
    over = () => {
      callOff();
      signal?.removeEventListener('abort', abort);
    };
    if (signal?.aborted) abort();
    else signal?.addEventListener('abort', abort, { once: true });
  });
  try {
    return await Promise.race([Promise.resolve().then(() => work(called.signal)), cut]);
  } finally {
    over();
  }
}
