/** The nouns: what a job is to its users, and the options it is made with. */
import type { Duration } from './duration.js';
import type { Json } from './json.js';

export const finishedStates = ['completed', 'failed', 'cancelled', 'expired'] as const;
export type FinishedState = (typeof finishedStates)[number];
export type State = 'pending' | 'processing' | FinishedState;
export const states = ['pending', 'processing', ...finishedStates] as const satisfies readonly State[];

export const deduplicationStrategies = ['none', 'skip', 'replace', 'coalesce'] as const;
export type DeduplicationStrategy = (typeof deduplicationStrategies)[number];

/** `count` keeps the newest n of this type and state. */
export type KeepRule = Duration | 'forever' | { age?: Duration | 'forever'; count?: number };
export type Keep = KeepRule | { readonly [S in FinishedState]?: KeepRule };

/** After attempt n the next one waits: fixed b · linear b·n · exponential b·2^(n−1) · quadratic b·n². */
export type Backoff =
  | { type: 'fixed' | 'linear' | 'exponential' | 'quadratic'; base: Duration; max?: Duration; jitter?: number }
  | ((attempt: number, error: JobError) => Duration);

export interface JobOptions {
  queue?: string;
  /** −1000 … 1000, lower first; then `scheduledFor`, then insertion. */
  priority?: number;
  delay?: Duration;
  runAt?: Date;
  /** Must start by: counts from `createdAt`, also between attempts and snoozes. */
  ttl?: Duration;
  /** Must finish by: the signal aborts, and five seconds later the attempt ends. */
  timeout?: Duration;
  attempts?: number;
  backoff?: Backoff;
  keep?: Keep;
  /** What the job is about, as `kind:id`. */
  subject?: string;
  /** Never two at once: one job per key has the turn, within its queue and type. */
  exclusiveKey?: string;
  deduplication?: DeduplicationStrategy;
  deduplicationKey?: string;
  source?: string;
  metadata?: { readonly [key: string]: Json };
  /** Same id, same type and input: outcome 'existing'; other input: IDEMPOTENCY_CONFLICT. */
  id?: string;
  /** Insert on this open transaction of the caller: committed with it or not at all. See docs/transactions.md. */
  tx?: SqlClient;
}

/** A caller's database handle: of `node:sqlite` (or one with the same interface) by `prepare`, of PostgreSQL by `query`. */
export interface SqlClient {
  query?(text: string, values: unknown[]): Promise<{ rows: unknown[] }>;
  prepare?(text: string): unknown;
}

export interface Enqueued<R = Json> {
  /** Only a type: what the job will answer. */
  readonly __result?: R;
  readonly id: string;
  readonly outcome: 'created' | 'skipped' | 'replaced' | 'coalesced' | 'existing';
  readonly replaced?: string;
}

export interface JobError {
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
}

export interface Progress {
  readonly percent: number;
  readonly step?: string;
  readonly message?: string;
}

export interface Job<I = Json, R = Json> {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly state: State;
  readonly input: I;
  readonly result: R | null;
  /** Of the last attempt; null again once completed. */
  readonly error: JobError | null;
  /** Handlers begun. A snooze, a hand-back and a lapsed claim use none. */
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly stalls: number;
  readonly priority: number;
  readonly subject: string | null;
  readonly deduplicationKey: string | null;
  readonly exclusiveKey: string | null;
  readonly source: string | null;
  readonly metadata: { readonly [key: string]: Json };
  readonly progress: Progress | null;
  readonly retryOf: string | null;
  readonly cancelRequested: { readonly at: Date; readonly reason: string } | null;
  readonly createdAt: Date;
  readonly scheduledFor: Date;
  /** Of the first attempt. */
  readonly startedAt: Date | null;
  readonly completedAt: Date | null;
  readonly expiresAt: Date | null;
  /** Due to run (pending), due back (processing), due to go (finished); null: never. */
  readonly dueAt: Date | null;
  readonly epoch: number;
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly next: string | null;
}

export const eventNames = [
  'created',
  'claimed',
  'progress',
  'retried',
  'snoozed',
  'stalled',
  'completed',
  'failed',
  'cancelled',
  'expired',
  'replaced',
  'removed',
  'swept',
  'alert',
] as const;

export type EventName = (typeof eventNames)[number];

/** Ids, never payloads. */
interface EventFields {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly subject: string;
  readonly attempt: number;
  readonly error: Omit<JobError, 'stack'>;
  readonly progress: Progress;
}

/** What an event has and may have; the other fields are there only by name, so that one may ask for them. */
type Carrying<Has extends keyof EventFields, May extends keyof EventFields> = Pick<EventFields, Has> &
  Partial<Pick<EventFields, May>> & { readonly [F in Exclude<keyof EventFields, Has | May>]?: never };

type OfJob<Has extends keyof EventFields = never, May extends keyof EventFields = never> = Carrying<
  'id' | 'type' | 'queue' | Has,
  'subject' | May
>;

/** Where it is more, or less, than which job it was. */
interface EventDetails {
  claimed: OfJob<'attempt'>;
  progress: OfJob<'progress'>;
  retried: OfJob<'attempt', 'error'>;
  completed: OfJob<'attempt'>;
  failed: OfJob<'attempt' | 'error'>;
  replaced: OfJob<'attempt', 'error'>;
  cancelled: OfJob<'attempt', 'error'>;
  expired: OfJob<'attempt', 'error'>;
  swept: Carrying<never, never>;
  alert: Carrying<'id' | 'error', never>;
}

type EventOf<N extends EventName> = {
  readonly cursor: string;
  readonly at: Date;
  readonly name: N;
} & (N extends keyof EventDetails ? EventDetails[N] : OfJob);

/** Which fields there are goes by the name. */
export type JobEvent = { [N in EventName]: EventOf<N> }[EventName];

export interface Logger {
  debug(message: string, fields?: object): void;
  info(message: string, fields?: object): void;
  warn(message: string, fields?: object): void;
  error(message: string, fields?: object): void;
}
