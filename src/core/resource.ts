/// <reference lib="esnext.disposable" preserve="true" />
/** Resources outside the queue, and leases on them: what a user defines, holds, and finds again. */
import { type Duration, show } from './duration.js';
import { LastoutError } from './errors.js';
import { identityPattern } from './identity.js';
import type { JobError, Page } from './job.js';
import type { Json } from './json.js';
import { ownOptions } from './own-options.js';
import { reading } from './reading.js';

/** How things of one kind begin and end. */
export interface ResourceSteps<S, I = Json> {
  /** Makes it under this very name, which nobody else gets; what it returns is kept as `info`. */
  create(
    spec: S,
    at: { readonly name: string; readonly epoch: number; readonly signal: AbortSignal; readonly jobId: string | null },
  ): Promise<I>;
  /**
   * Ends it. Called again until it resolves, perhaps by another process, each time from the start: what is gone already is
   * fine. Resolves only once it is gone; not allowed, not reached and not in time are failures.
   */
  destroy(at: {
    readonly name: string;
    readonly info: Json | null;
    readonly attempt: number;
    readonly signal: AbortSignal;
  }): Promise<void>;
  /** All that there is of this kind, whoever made it. Rejects where that is not known for all of them. */
  list(signal: AbortSignal): Promise<readonly { readonly name: string; readonly createdAt: Date }[]>;
}

export interface Resource<S, I = Json> {
  readonly kind: string;
  readonly __spec?: S;
  readonly __info?: I;
}

export interface Lease<I = Json> extends AsyncDisposable {
  readonly id: string;
  readonly kind: string;
  /** What the thing is called where it lives. */
  readonly name: string;
  readonly state: LeaseState;
  /** What `create` returned; null where that cannot be read, or not yet. */
  readonly info: I;
  /** The job in whose handler it was taken. */
  readonly jobId: string | null;
  readonly subject: string | null;
  /** When it ends; of one that could not be ended yet: when that is tried again. */
  readonly expiresAt: Date;
  /** Why it could not be ended yet; of one that was closed by hand, the reason. */
  readonly error: JobError | null;
  /** From now; answers when it ends. After its end: LEASE_LOST. */
  renew(ttl: Duration): Promise<Date>;
  /** It ends now: resolves when that is stored, and whichever process is first destroys it. */
  release(): Promise<void>;
}

export const leaseStates = ['creating', 'held', 'ending', 'needs_attention', 'ended'] as const;
export type LeaseState = (typeof leaseStates)[number];

/** What `queue.leases` offers. */
export interface Leases {
  /** Newest first; limit 50, at most 200. A page may be short, even empty, and have a next one. */
  find(filter?: { state?: LeaseState; subject?: string; cursor?: string; limit?: number }): Promise<Page<Lease>>;
  /** Tries at once to end one that needs attention. */
  retry(id: string): Promise<void>;
  /** Closes the record without destroying anything, for what somebody has ended by hand. */
  force(id: string, reason: string): Promise<void>;
}

/** No dot: names are read from their end. */
const kindPattern = /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/;
const stepNames = ['create', 'destroy', 'list'] as const;
const known = new WeakMap<Resource<unknown, unknown>, ResourceSteps<unknown>>();

export function defineResource<S, I extends Json = Json>(kind: string, steps: ResourceSteps<S, I>): Resource<S, I> {
  if (typeof kind !== 'string' || !kindPattern.test(kind))
    throw new LastoutError(
      'INVALID_NAME',
      `The kind of a resource is ${show(kind)}; it must match ${kindPattern.source}.`,
    );
  const where = `The steps of resource "${kind}"`;
  ownOptions(steps ?? null, stepNames, where);
  // Steps may be methods of a class.
  const { create, destroy, list } = reading(where, 'UNKNOWN_OPTION', () => ({ ...methodsOf(steps, kind) }));
  const resource: Resource<S, I> = Object.freeze({ kind });
  known.set(resource, { create: create.bind(steps), destroy: destroy.bind(steps), list: list.bind(steps) });
  return resource;
}

function methodsOf<S, I>({ create, destroy, list }: ResourceSteps<S, I>, kind: string): ResourceSteps<S, I> {
  for (const [name, step] of Object.entries({ create, destroy, list }))
    if (typeof step !== 'function')
      throw new LastoutError('UNKNOWN_OPTION', `${name} of resource "${kind}" is ${show(step)}; give a function.`);
  return { create, destroy, list };
}

export function stepsOf(resource: unknown): ResourceSteps<unknown> {
  const steps =
    resource !== null && typeof resource === 'object' ? known.get(resource as Resource<unknown, unknown>) : undefined;
  if (steps) return steps;
  throw new LastoutError('TYPE_REQUIRED', `The resource is ${show(resource)}; give what defineResource returned.`);
}

/** Read from its end: the id of the lease, the identity of its store, the kind; the rest is the namespace. */
export function nameOf(namespace: string, kind: string, identity: string, id: string): string {
  return `${namespace}.${kind}.${identity}.${id}`;
}

export interface LeaseName {
  /** Null: a name that 0.1.0 has given, which knew of none. */
  readonly identity: string | null;
  readonly id: string;
}

/** Null: another namespace's name, another kind's, or nobody's. */
export function readName(name: unknown, namespace: string, kind: string): LeaseName | null {
  const start = `${namespace}.${kind}.`;
  if (typeof name !== 'string' || !name.startsWith(start)) return null;
  const parts = name.slice(start.length).split('.');
  if (parts.length > 2 || !parts.every((part) => identityPattern.test(part))) return null;
  const id = parts.pop()!;
  return { identity: parts[0] ?? null, id };
}
