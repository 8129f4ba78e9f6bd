/** Leases on resources outside: taken, held, found again, and ended by whoever is first. */
import type { TypeDetails } from '../core/definition.js';
import type { Duration } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { checkSubject } from '../core/names.js';
import type { BoundLeasesOf } from '../core/owned.js';
import { type Lease, type Resource, type ResourceSteps, stepsOf } from '../core/resource.js';
import { refuseUnknown } from '../core/unknown-option.js';
import { bookOf, type LeaseBook } from './book.js';
import { boundLeases } from './bound.js';
import { endingType } from './ending.js';
import { checkLeaseTtl, handleOf } from './handle.js';
import type { LeaseParts } from './parts.js';
import { take } from './taking.js';

export interface Leasing {
  readonly book: LeaseBook;
  readonly boundLeasesOf: BoundLeasesOf;
  lease<S>(resource: Resource<S>, spec: S, options: { ttl: Duration; subject?: string }): Promise<Lease>;
  /** From here on this process ends leases of its kind. */
  know(resource: Resource<unknown>): void;
}

/** `begin` starts a worker of the library for a kind that has become known. */
export function leasingOn(parts: LeaseParts, begin: (types: readonly TypeDetails[]) => void): Leasing {
  const known = new Map<string, ResourceSteps<unknown>>();

  function know(resource: Resource<unknown>): void {
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
    begin([endingType(parts, kind, steps)]);
  }

  async function lease<S>(
    resource: Resource<S>,
    spec: S,
    options: { ttl: Duration; subject?: string },
  ): Promise<Lease> {
    const steps = stepsOf(resource);
    refuseUnknown(options ?? null, ['ttl', 'subject'], 'The options of lease');
    const ttlMs = checkLeaseTtl(options.ttl);
    const subject = options.subject === undefined ? null : checkSubject(options.subject);
    know(resource as Resource<unknown>);
    const { kind } = resource;
    const { record } = await take(parts, { kind, steps, spec, ttlMs, subject, owner: null, signal: null });
    return handleOf(parts, record);
  }

  return { book: bookOf(parts), boundLeasesOf: (asker) => boundLeases(parts, asker, know), lease, know };
}
