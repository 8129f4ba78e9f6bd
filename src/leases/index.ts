/** Leases on resources outside: taken, held, found again, and ended by whoever is first. */
import type { TypeDetails } from '../core/definition.js';
import type { Duration } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { leaseType } from '../core/lease-record.js';
import { checkSubject } from '../core/names.js';
import type { BoundLeasesOf } from '../core/owned.js';
import { liveOnesOf, storeRecurring } from '../core/recurring.js';
import { type Lease, type Resource, type ResourceSteps, stepsOf } from '../core/resource.js';
import type { StoredJob } from '../core/store.js';
import { pause } from '../core/system.js';
import { ownOptions } from '../core/own-options.js';
import { bookOf, type LeaseBook } from './book.js';
import { boundLeases } from './bound.js';
import { endingType, endSoon } from './ending.js';
import { checkLeaseTtl, handleOf } from './handle.js';
import { type LeaseParts, moveOne } from './parts.js';
import { type OwnLeases, ownLeases } from './own.js';
import { formerTypeOf, reconcileMs, reconcilerOf, reconciling } from './reconcile.js';
import { take } from './taking.js';
import { endUnwritten, type Unwritten } from './unwritten.js';

export interface Leasing {
  readonly book: LeaseBook;
  readonly boundLeasesOf: BoundLeasesOf;
  lease<S, I>(resource: Resource<S, I>, spec: S, options: { ttl: Duration; subject?: string }): Promise<Lease<I>>;
  /** Whether this process can end leases of this type. */
  knows(type: string): boolean;
  /** Ends a lease for the sake of its owner. Rejects where it has not ended. */
  end(record: StoredJob): Promise<void>;
  readonly own: Pick<OwnLeases, 'livingOf' | 'allEnded'>;
  /** For `health`: what became of leases while nothing can be written. */
  readonly warnings: Unwritten['warnings'];
  /** From here on this process ends leases of its kind. */
  know(resource: Resource<unknown, unknown>): void;
  stop(): void;
}

/** `begin` starts a worker of the library for a kind that has become known, `isFailing` says whether one of them gets nothing done. */
export function leasingOn(
  parts: LeaseParts,
  begin: (types: readonly TypeDetails[]) => void,
  isFailing: () => boolean,
): Leasing {
  const known = new Map<string, ResourceSteps<unknown>>();
  const own = ownLeases(parts);
  const book = bookOf(parts);
  /** Null as long as no kind is known. */
  let unwritten: Unwritten | null = null;
  const stopping = new AbortController();
  /** Each is called off when the queue is closed. */
  const taking = new Set<AbortController>();

  function know(resource: Resource<unknown, unknown>): void {
    const steps = stepsOf(resource);
    const { kind } = resource;
    const before = known.get(kind);
    if (before === steps) return;
    if (before)
      throw new LastoutError(
        'INVALID_NAME',
        `There are two resources of kind "${kind}"; define it once, or name one otherwise.`,
      );
    known.set(kind, steps);
    unwritten ??= endUnwritten(parts, known, isFailing);
    begin([endingType(parts, kind, steps, own.ended), reconcilerOf(parts, kind, steps)]);
    void announce(kind);
  }

  /** Until it is stored that this kind is to be compared from time to time. */
  async function announce(kind: string): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await endFormer(kind);
        await storeRecurring(parts.store, parts.system.id(), reconciling(kind));
        return;
      } catch {
        await pause(parts.system, reconcileMs, stopping.signal);
      }
    }
  }

  async function endFormer(kind: string): Promise<void> {
    const filter = liveOnesOf({ type: formerTypeOf(kind), key: kind });
    const move = { kind: 'cancel', reason: 'Version 0.1.0 compared by it', force: true } as const;
    const { jobs } = await parts.store.find({ filter, cursor: null, limit: 1 });
    for (const { id } of jobs) await moveOne(parts, id, move);
  }

  async function lease<S, I>(
    resource: Resource<S, I>,
    spec: S,
    options: { ttl: Duration; subject?: string },
  ): Promise<Lease<I>> {
    const steps = stepsOf(resource);
    const { ttl, subject: about } = ownOptions(options, ['ttl', 'subject'], 'The options of lease');
    const ttlMs = checkLeaseTtl(ttl);
    const subject = about === undefined ? null : checkSubject(about);
    know(resource);
    const { kind } = resource;
    const closing = new AbortController();
    taking.add(closing);
    const asked = { kind, steps, spec, ttlMs, subject, owner: null, signal: closing.signal };
    const { record } = await take(parts, asked).finally(() => taking.delete(closing));
    return handleOf<I>(parts, record);
  }

  return {
    book: {
      ...book,
      async attention(tally) {
        const { count, sample } = await book.attention(tally);
        const { kept } = unwritten ?? { kept: { count: 0, sample: [] } };
        const others = kept.sample.filter((id) => !sample.includes(id));
        return { count: count + (kept.count - kept.sample.length) + others.length, sample: [...sample, ...others] };
      },
    },
    get warnings() {
      return unwritten?.warnings ?? [];
    },
    boundLeasesOf: (asker) => boundLeases(parts, asker, know, (id) => own.taken(id, asker.owner)),
    own,
    lease,
    knows: (type) => [...known.keys()].some((kind) => leaseType(kind) === type),
    end: (record) => endSoon(parts, record),
    know,
    stop() {
      stopping.abort();
      unwritten?.stop();
      for (const closing of taking) closing.abort(new LastoutError('CLOSED', 'The queue is closed.'));
    },
  };
}
