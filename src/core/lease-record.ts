/** A lease as a job of queue `lastout`: its type says the kind, its key is the name, its memo that the thing exists. */
import { readableMessage, whyUnreadable } from './coded.js';
import type { JobError } from './job.js';
import type { Json } from './json.js';
import { systemQueue } from './names.js';
import type { LeaseState } from './resource.js';
import type { StoredJob } from './stored-job.js';

const typeStart = 'lastout.lease.';

/** So many failures in a row, and somebody should look at it. It is tried on all the same. */
export const quickTries = 3;

export function leaseType(kind: string): string {
  return typeStart + kind;
}

export function isLeaseType(type: string): boolean {
  return type.startsWith(typeStart);
}

export function isLease({ type, queue }: Pick<StoredJob, 'type' | 'queue'>): boolean {
  return queue === systemQueue && isLeaseType(type);
}

export function kindOf({ type }: Pick<StoredJob, 'type'>): string {
  return type.slice(typeStart.length);
}

/** How often ending it has failed. A crash is no failure of its own. */
function failuresOf({ state, attempts }: StoredJob): number {
  return state === 'processing' ? attempts - 1 : attempts;
}

export function needsAttention(record: StoredJob): boolean {
  return record.completedAt === null && record.error !== null && failuresOf(record) >= quickTries;
}

export const leftAloneMs = 15 * 60_000;

/** Nobody who knows its kind has come to end it. */
export function isLeftAlone({ state, dueAt }: StoredJob, now: number): boolean {
  return state === 'pending' && dueAt !== null && dueAt + leftAloneMs <= now;
}

/** It should have ended, and has not. `alive`: the leases that a close had to leave alive. */
export function isLeftBehind(record: StoredJob, now: number, alive: ReadonlySet<string>): boolean {
  return needsAttention(record) || alive.has(record.id) || isLeftAlone(record, now);
}

export function leaseStateOf(record: StoredJob, now: number): LeaseState {
  if (record.completedAt !== null) return 'ended';
  if (needsAttention(record)) return 'needs_attention';
  const hasBegunToEnd = record.state === 'processing' || record.epoch > 0 || record.dueAt! <= now;
  if (hasBegunToEnd) return 'ending';
  return record.memo === null ? 'creating' : 'held';
}

export function infoMemo(info: string): string {
  return `{"info":${info}}`;
}

/** Null also where a codec keeps it from us: the name must do. */
export function infoOf({ memo }: StoredJob): Json | null {
  if (memo === null || whyUnreadable(memo) !== null) return null;
  return (JSON.parse(memo) as { info: Json }).info;
}

export function leaseErrorOf({ error }: StoredJob): JobError | null {
  if (error === null) return null;
  const own = JSON.parse(error) as JobError;
  return { ...own, message: readableMessage(own.message) };
}
