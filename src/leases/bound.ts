/** Leases of one attempt: bound to its claim, extended by its heartbeats, released when it ends, gone with a dead worker. */
import type { Duration } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import type { Asker, BoundLeases } from '../core/owned.js';
import { type Lease, type Resource, type ResourceSteps, stepsOf } from '../core/resource.js';
import { noFilter } from '../core/store.js';
import { describeThrown } from '../core/thrown.js';
import { ownOptions } from '../core/own-options.js';
import { checkLeaseTtl, handleOf, lostLease, renew } from './handle.js';
import { type LeaseParts, makeDue, moveOne, twice } from './parts.js';
import { take } from './taking.js';

const leasesMax = 100;

interface Bound {
  readonly id: string;
  /** When its own ttl is over, by our monotonic clock. */
  endsAt: number;
  callOff: () => void;
}

export function boundLeases(
  parts: LeaseParts,
  asker: Asker,
  know: (resource: Resource<unknown, unknown>) => void,
  taken: (id: string) => void,
): BoundLeases {
  const { store, system, logger } = parts;
  const under = { epoch: asker.epoch, owner: asker.owner };
  const bound = new Map<string, Bound>();
  let taking = 0;
  let isOver = false;

  /** No longer than until the next heartbeat is surely late. */
  const spanOf = ({ endsAt }: Bound): number => Math.max(1, Math.min(asker.leaseMs, endsAt - system.monotonic()));

  /** Counted from before the store was asked: its time cannot be over later than that. */
  function arm(one: Bound, until: number): void {
    one.callOff();
    one.callOff = system.timer(Math.max(0, until - system.monotonic()), () => lose(one));
  }
  function lose(one: Bound): void {
    if (!bound.has(one.id)) return;
    forget(one);
    asker.abort(lostLease(one.id));
  }
  function forget(one: Bound): void {
    one.callOff();
    bound.delete(one.id);
  }

  async function takeOne<S, I>(resource: Resource<S, I>, spec: S, options: { ttl?: Duration } = {}): Promise<Lease<I>> {
    const { ttl } = ownOptions(options, ['ttl'], 'The options of lease');
    const steps: ResourceSteps<unknown> = stepsOf(resource);
    const ttlMs = ttl === undefined ? Number.POSITIVE_INFINITY : checkLeaseTtl(ttl);
    if (bound.size + taking >= leasesMax)
      throw new LastoutError('INVALID_LIMIT', `This attempt holds ${leasesMax} leases already.`);
    know(resource);
    taking += 1;
    try {
      const { kind } = resource;
      const { signal, subject } = asker;
      const owner = { id: asker.id, ...under };
      const span = Math.min(asker.leaseMs, ttlMs);
      const { record, since } = await take(parts, { kind, steps, spec, ttlMs: span, subject, owner, signal });
      const one: Bound = { id: record.id, endsAt: since + ttlMs, callOff: () => undefined };
      bound.set(one.id, one);
      taken(one.id);
      arm(one, since + span);
      if (isOver) await releaseAll(); // nobody waited for it
      return handleOf<I>(parts, record, { renew: (ms) => renewOne(one, ms), release: () => releaseOne(one) });
    } finally {
      taking -= 1;
    }
  }

  async function renewOne(one: Bound, ttlMs: number): Promise<Date> {
    if (!bound.has(one.id)) throw lostLease(one.id);
    const askedAt = system.monotonic();
    const span = Math.min(asker.leaseMs, ttlMs);
    const until = await renew(parts, one.id, span, under);
    one.endsAt = askedAt + ttlMs;
    arm(one, askedAt + span);
    return ttlMs > span ? new Date(until.getTime() + ttlMs - span) : until;
  }

  /** A store that does not answer is asked again with the next heartbeat; when its time is up, the lease is lost. */
  async function extend(one: Bound): Promise<void> {
    const askedAt = system.monotonic();
    const when = { inMs: spanOf(one) };
    try {
      const outcome = await moveOne(parts, one.id, { kind: 'confirm', memo: null, when, under });
      if (outcome !== 'confirmed') lose(one);
      else if (bound.has(one.id)) arm(one, askedAt + when.inMs);
    } catch (error) {
      logger.warn('A lease could not be extended; trying again', {
        id: one.id,
        error: describeThrown(error).message,
      });
    }
  }

  async function releaseOne(one: Bound): Promise<void> {
    forget(one);
    await makeDue(parts, one.id);
  }

  /** Where this fails, they lapse like those of a dead worker. */
  async function releaseAll(): Promise<void> {
    const ids = [...bound.keys()];
    for (const one of [...bound.values()]) forget(one);
    if (ids.length === 0) return;
    const filter = { ...noFilter, ids };
    const move = { kind: 'reschedule', when: { inMs: 0 }, priority: null } as const;
    try {
      await twice(() => store.move({ filter, move, dryRun: false, cursor: null, limit: ids.length }));
    } catch (error) {
      logger.warn('Leases could not be released; they end by themselves', {
        ids,
        error: describeThrown(error).message,
      });
    }
  }

  return {
    take: takeOne,
    async beat() {
      if (!isOver) await Promise.all([...bound.values()].map(extend));
    },
    async end() {
      isOver = true;
      await releaseAll();
    },
  };
}
