/** A lease in the hands of a caller: what is known of it, and what may be done with it. */
import { type Duration, toMs, yearMs } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { infoOf, kindOf, leaseErrorOf, leaseStateOf } from '../core/lease-record.js';
import type { Json } from '../core/json.js';
import { byIds } from '../core/pages.js';
import type { Lease, LeaseState } from '../core/resource.js';
import type { StoredJob, Under } from '../core/store.js';
import { type LeaseParts, makeDue, moveOne, twice } from './parts.js';

export function checkLeaseTtl(ttl: unknown): number {
  return toMs(ttl, 'ttl', 'INVALID_TTL', { min: 1, max: yearMs });
}

/** How this one is renewed and released; by default by its id alone. */
export interface Holding {
  renew(ttlMs: number): Promise<Date>;
  release(): Promise<void>;
}

/** `I`: what `create` of its resource returns, where the caller knows it. */
export function handleOf<I = Json>(parts: LeaseParts, record: StoredJob, how?: Holding): Lease<I> {
  const { id, key, ownedBy, subject } = record;
  const holding = how ?? {
    renew: (ttlMs: number) => (ownedBy === null ? renew(parts, id, ttlMs, null) : Promise.reject(boundTo(ownedBy, id))),
    release: () => release(parts, id),
  };
  let state: LeaseState = leaseStateOf(record, parts.system.now());
  let expiresAt = new Date((record.state === 'pending' ? record.dueAt : null) ?? record.scheduledFor);
  const lease: Lease<I> = {
    id,
    kind: kindOf(record),
    name: key ?? '',
    get state() {
      return state;
    },
    info: infoOf(record) as I,
    jobId: ownedBy,
    subject,
    get expiresAt() {
      return expiresAt;
    },
    error: leaseErrorOf(record),
    async renew(ttl: Duration) {
      const ttlMs = checkLeaseTtl(ttl);
      expiresAt = await holding.renew(ttlMs);
      return expiresAt;
    },
    async release() {
      await holding.release();
      if (state === 'held') state = 'ending';
    },
    [Symbol.asyncDispose]: () => lease.release(),
  };
  return lease;
}

/** Only while it is held: what is due, or has been claimed to be ended, is lost. */
export async function renew(parts: LeaseParts, id: string, ttlMs: number, under: Under | null): Promise<Date> {
  const when = { inMs: ttlMs };
  const outcome = await twice(() => moveOne(parts, id, { kind: 'confirm', memo: null, when, under }));
  const [record] = outcome === 'confirmed' ? await byIds(parts.store, [id]) : [];
  if (record?.dueAt != null) return new Date(record.dueAt);
  throw lostLease(id);
}

/** Renewed by anybody else it would outlive its attempt. */
function boundTo(jobId: string, id: string): LastoutError {
  const message = `Lease ${id} belongs to an attempt of job ${jobId}: it is extended by its heartbeats, and renewed by its handler alone.`;
  return new LastoutError('INVALID_LEASE', message, { id, jobId });
}

export function lostLease(id: string): LastoutError {
  return new LastoutError('LEASE_LOST', `Lease ${id} is over: its time is up, or it was released. Take another one.`, {
    id,
  });
}

async function release(parts: LeaseParts, id: string): Promise<void> {
  await makeDue(parts, id);
}
