/** What the scripts are told: which jobs, what to do with them, and lists among the arguments. */
import { askedColumns } from '../../core/columns.js';
import { seqOf } from '../../core/refusal.js';
import type { CleanupPolicy } from '../../core/policy.js';
import { farAway, type JobFilter, type Move } from '../../core/store.js';
import type { Args } from './connection.js';
import { cancelError, orphanError, underText } from './rows.js';
import type { scripts } from './scripts.js';

export type Value = string | number;

/** One script, one step. */
export type Reach = (script: keyof typeof scripts, args: Args) => Promise<unknown>;

/** A list among the arguments: how many, and which; null is -1. */
export function list(values: readonly string[] | null): Value[] {
  return values === null ? [-1] : [values.length, ...values];
}

/** Retention, cap, and which time counts. */
export function cleanupArgs({ jobRetentionMs, maxStoredJobs, useCompletedTime }: CleanupPolicy): Value[] {
  return [jobRetentionMs, maxStoredJobs === Number.POSITIVE_INFINITY ? '' : maxStoredJobs, +useCompletedTime];
}

export function moveText(move: Move): string {
  switch (move.kind) {
    case 'cancel':
      return JSON.stringify({ kind: move.kind, force: move.force, error: cancelError(move.reason) });
    case 'condemn':
      return JSON.stringify({ kind: move.kind, error: orphanError(move.reason) });
    case 'remove':
      return JSON.stringify({ ...move, error: cancelError(move.reason ?? 'Removed') });
    case 'retry':
      return JSON.stringify({ kind: move.kind, again: move.again, failuresOnly: move.failuresOnly });
    case 'reschedule':
      return JSON.stringify({
        kind: move.kind,
        ...move.when,
        ...(move.priority !== null && { priority: move.priority }),
      });
    case 'hold':
      return JSON.stringify({ kind: move.kind, reason: move.reason, untilAt: move.until ?? farAway });
    case 'unhold':
      return JSON.stringify(move);
    case 'dismiss':
      return JSON.stringify({ kind: move.kind, ...(move.reason !== undefined && { error: cancelError(move.reason) }) });
    case 'defer':
      return JSON.stringify({ kind: move.kind, ...(move.forMs !== null && { inMs: move.forMs }) });
    case 'confirm':
      return JSON.stringify({
        kind: move.kind,
        ...(move.memo !== null && { memo: move.memo }),
        ...(move.when ?? { at: farAway }),
        ...(move.under && { under: underText(move.under) }),
      });
  }
}

export function filterArgs(filter: JobFilter, cursor: string | null, limit: number): Value[] {
  const { ids, states, types, queues, before, after, system } = filter;
  const asked = askedColumns.filter(({ name }) => filter[name] !== null).map(({ name }) => [name, filter[name]]);
  const text = JSON.stringify({
    system,
    limit,
    ...(cursor !== null && { cursor: seqOf(cursor) }),
    ...Object.fromEntries(asked),
    ...(before !== null && { before }),
    ...(after !== null && { after }),
  });
  return [text, ...list(ids), ...list(states), ...list(types), ...list(queues)];
}

export function cursorOf(seq: string | null): string | null {
  return seq === null ? null : Number(seq).toString(36);
}
