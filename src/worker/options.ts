/** Worker options, checked at the start: a wrong lease would only show when a worker dies. */
import { type Duration, show, toMs } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { checkName, checkQueue } from '../core/names.js';
import { defaults } from '../core/policy.js';
import { ownOptions, readFlag } from '../core/own-options.js';
import { listOf } from '../core/reading.js';

export interface WorkOptions {
  concurrency?: number;
  queues?: readonly string[];
  lease?: Duration;
  heartbeat?: Duration;
  poll?: Duration;
  maxStalls?: number;
  name?: string;
  /** A worker keeps its process alive until it is stopped, unless this is true. */
  unref?: boolean;
}

export interface WorkerSettings {
  readonly concurrency: number;
  readonly queues: readonly string[] | null;
  readonly leaseMs: number;
  readonly heartbeatMs: number;
  readonly pollMs: number;
  readonly maxStalls: number;
  readonly name: string | null;
  readonly unref: boolean;
}

export interface OneShotOptions extends WorkOptions {
  /** At most so long, also while more is ready; without it until nothing is. */
  for?: Duration;
}

const names = ['concurrency', 'queues', 'lease', 'heartbeat', 'poll', 'maxStalls', 'name', 'unref'];
const leaseMinMs = 1_000;
const pollMinMs = 5;
const queuesMax = 1_000;

export function readOneShotOptions(options: OneShotOptions = {}): { settings: WorkerSettings; forMs: number | null } {
  const { for: atMost, ...rest } = ownOptions(options, [...names, 'for'], 'The options of runUntilIdle');
  const forMs = atMost === undefined ? null : toMs(atMost, 'for', 'INVALID_DURATION', { min: 1 });
  return { settings: readWorkOptions(rest), forMs };
}

export function readWorkOptions(given: WorkOptions = {}): WorkerSettings {
  const options = ownOptions(given, names, 'The options of work');
  const { lease = defaults.leaseMs } = options;
  const leaseMs = toMs(lease, 'lease', 'INVALID_LEASE', { min: leaseMinMs });
  const heartbeatMs =
    options.heartbeat === undefined ? Math.floor(leaseMs / 3) : toMs(options.heartbeat, 'heartbeat', 'INVALID_LEASE');
  if (heartbeatMs < 1 || heartbeatMs >= leaseMs) {
    throw new LastoutError(
      'INVALID_LEASE',
      `heartbeat is ${heartbeatMs} ms and lease is ${leaseMs} ms; the heartbeat must be shorter, a third is good.`,
    );
  }
  return {
    concurrency: whole(options.concurrency ?? defaults.concurrency, 'concurrency', 1, 100_000),
    queues: readQueues(options.queues),
    leaseMs,
    heartbeatMs,
    pollMs:
      options.poll === undefined
        ? defaults.pollMs
        : Math.max(pollMinMs, toMs(options.poll, 'poll', 'INVALID_DURATION', { min: 1 })),
    maxStalls: whole(options.maxStalls ?? defaults.maxStalls, 'maxStalls', 1, 1_000),
    name: options.name === undefined ? null : checkName(options.name, 'name'),
    unref: readFlag(options.unref, 'unref'),
  };
}

function readQueues(queues: unknown): readonly string[] | null {
  if (queues === undefined) return null;
  const listed = listOf(queues, queuesMax, 'queues', 'INVALID_NAME');
  if (!listed) throw new LastoutError('INVALID_NAME', `queues is ${show(queues)}; give a list of names.`);
  if (listed.length === 0)
    throw new LastoutError(
      'INVALID_NAME',
      'queues is an empty list, of which nothing would run; leave it out to take every queue.',
    );
  return listed.map((queue) => checkQueue(queue));
}

function whole(value: unknown, name: string, min: number, max: number): number {
  if (!Number.isInteger(value) || (value as number) < min || (value as number) > max) {
    throw new LastoutError('INVALID_LIMIT', `${name} is ${show(value)}; give a whole number from ${min} to ${max}.`);
  }
  return value as number;
}
