import { defineJob, type Job, type JobOptions, type State } from 'lastout';
import { type Config, defaultConfig } from './config.js';
import type { TripData } from './trips.js';

/** Both queues, in the order in which they are looked at. */
export const tripQueues = ['trip-requests', 'trip-timeouts'] as const;

/** One trip put to one driver. */
export interface TripRequest {
  readonly tripId: string;
  readonly driverId: string;
  readonly customerId: string;
  readonly tripData: TripData;
}

/** A request as its handler and its readers see it. */
export interface TripRequestJob extends TripRequest {
  readonly metadata: {
    readonly createdAt: Date;
    readonly expiresAt: Date;
    readonly status: 'PENDING' | 'PROCESSING' | 'EXPIRED' | 'COMPLETED';
  };
}

/** The end of the time in which one driver may answer. */
export interface TripTimeout {
  readonly tripId: string;
  readonly driverId: string;
}

/** What became of a job; the ways that are left throw or snooze. */
export type Handled = { readonly outcome: 'processed' | 'skipped' };

const common = {
  subject: ({ tripId }: { readonly tripId: string }) => tripSubject(tripId),
  backoff: { type: 'exponential', base: 2_000, max: '60s' },
} satisfies JobOptionsOf<{ readonly tripId: string }>;

type JobOptionsOf<I> = Omit<JobOptions, 'subject'> & { subject: (input: I) => string };

export const processTripRequest = defineJob<TripRequest, Handled>('process-trip-request', {
  ...common,
  queue: 'trip-requests',
  attempts: 3,
});

/**
 * Inserted together with its request and due when that expires, so that somebody else is asked whatever becomes of it.
 * Once the driver sees the request, it is due when the time to answer is over. It has no ttl, and outlasts an outage.
 */
export const timeoutTripRequest = defineJob<TripTimeout, Handled>('timeout-trip-request', {
  ...common,
  queue: 'trip-timeouts',
  attempts: 100,
});

/** What of both is a setting. */
export function optionsOf({ ttl, removeOnComplete, removeOnFail }: Config) {
  const keep = { completed: { count: removeOnComplete }, failed: { count: removeOnFail } };
  return { request: { delay: 0, ttl, keep }, timeout: { delay: ttl, keep } } satisfies { [job: string]: JobOptions };
}

export function tripSubject(tripId: string): string {
  return `trip:${tripId}`;
}

/** One request for each driver of a trip, and one time-out: asked for twice, it is inserted once. */
export function requestId({ tripId, driverId }: TripTimeout): string {
  return `trip-${tripId}:${driverId}`;
}

export function timeoutId(of: TripTimeout): string {
  return `timeout-${requestId(of)}`;
}

const statusOf: { readonly [state in State]: TripRequestJob['metadata']['status'] } = {
  pending: 'PENDING',
  processing: 'PROCESSING',
  completed: 'COMPLETED',
  expired: 'EXPIRED',
  // It will not be put to the driver any more. Why, the job itself says.
  failed: 'EXPIRED',
  cancelled: 'EXPIRED',
};

/** Dates and status are those of the job itself, so they agree with its ttl and are never out of date. */
export function toTripRequestJob({ input, state, createdAt, expiresAt }: Job<TripRequest>): TripRequestJob {
  return {
    ...input,
    metadata: {
      createdAt,
      expiresAt: expiresAt ?? new Date(createdAt.getTime() + defaultConfig.ttl),
      status: statusOf[state],
    },
  };
}
