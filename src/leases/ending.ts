/** Ending leases: what is due is claimed like any job, by whoever is first, and destroyed by its name. */
import type { TypeDetails } from '../core/definition.js';
import { infoOf, leaseErrorOf, leaseType, quickTries } from '../core/lease-record.js';
import { type Outcome, snooze } from '../core/outcome.js';
import { byIds } from '../core/pages.js';
import { readName, type ResourceSteps } from '../core/resource.js';
import type { StoredJob } from '../core/store.js';
import { describeThrown } from '../core/thrown.js';
import { pause } from '../core/system.js';
import { type LeaseParts, makeDue } from './parts.js';
import { createDeadlineMs } from './taking.js';

/** How often one that needs attention is tried again. */
const patientMs = 15 * 60_000;

/** After the nth failure: n² seconds, as long as that is quick; then every quarter of an hour, for ever. */
export function waitAfter(failures: number): number {
  return failures <= quickTries ? failures * failures * 1_000 : patientMs;
}

/** A job type of the library: its worker stops with the queue, and hands back what it has not ended. */
export function endingType(
  parts: LeaseParts,
  kind: string,
  steps: ResourceSteps<unknown>,
  ended: (id: string) => void,
): TypeDetails {
  const { store, system, logger, namespace, meters } = parts;

  /** Taken under an identity that this store no longer has: it is a copy, and the thing belongs to the other one. */
  async function isAnothers({ key }: StoredJob): Promise<boolean> {
    const of = readName(key, namespace, kind)?.identity ?? null;
    return of !== null && of !== (await store.readIdentity());
  }

  async function destroy(record: StoredJob, signal: AbortSignal): Promise<void> {
    const { id, key, attempts: attempt } = record;
    const began = system.monotonic();
    try {
      await steps.destroy({ name: key!, info: infoOf(record), attempt, signal });
    } catch (error) {
      if (signal.aborted && (signal.reason as { code?: string }).code === 'CLOSED') throw error;
      meters.add('lease_end_failures', 1, { kind });
      const { message } = describeThrown(error);
      logger.warn('A lease could not be ended; it is tried again', { id, name: key, attempt, error: message });
      throw error;
    }
    meters.took('lease_end', system.monotonic() - began, { kind });
  }

  async function run({
    job,
    signal,
  }: {
    readonly job: { readonly id: string };
    readonly signal: AbortSignal;
  }): Promise<Outcome | void> {
    const [record] = await byIds(store, [job.id]);
    if (!record) return;
    if (await isAnothers(record)) return logger.warn('A lease of another store was let go', { kind, name: record.key });
    await destroy(record, signal);
    // Making it may still be under way somewhere: what is not there yet is not gone.
    const openMs = record.memo === null ? record.createdAt + createDeadlineMs - system.now() : 0;
    if (openMs > 0) return snooze(Math.min(openMs, createDeadlineMs));
    ended(record.id);
    meters.add('leases_ended', 1, { kind });
  }

  return libraryType(leaseType(kind), waitAfter, run);
}

/** How long somebody who removes a job waits for its leases. */
const endSoonMs = 5_000;
const lookAgainMs = 50;

/** Asks for its end and waits for it a while: its worker, here or elsewhere, sees to it. */
export async function endSoon(parts: LeaseParts, { id, attempts }: StoredJob): Promise<void> {
  const { store, system } = parts;
  await makeDue(parts, id);
  for (const until = system.monotonic() + endSoonMs; ; ) {
    const [record] = await byIds(store, [id]);
    if (!record || record.completedAt !== null) return;
    const hasFailed = record.state === 'pending' && record.attempts > attempts;
    if (hasFailed || system.monotonic() >= until)
      throw new Error(leaseErrorOf(record)?.message ?? `"${record.key}" is still being made or ended`);
    await pause(system, lookAgainMs);
  }
}

export function libraryType(
  name: string,
  backoff: (failures: number) => number,
  run: (context: { readonly job: { readonly id: string }; readonly signal: AbortSignal }) => Promise<Outcome | void>,
): TypeDetails {
  return {
    name,
    ignoresInput: true,
    schema: null,
    values: {},
    policy: '',
    perInput: {},
    checkSubject: false,
    backoff,
    run,
  };
}
