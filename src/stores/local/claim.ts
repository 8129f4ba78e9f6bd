/** Claim and extend: who runs what, until when. Tending, which every claim does first, brings back what lapsed. */
import { epochAt } from '../../core/epoch.js';
import { stalledError } from '../../core/failures.js';
import type { Claimed, ClaimRequest, Extended, ExtendRequest } from '../../core/store.js';
import { queuesAwake } from '../../core/pauses.js';
import { partingMs, policyOf } from '../../core/policy.js';
import { backToPending, endClaimed, expire, isExpired } from './end.js';
import { promote } from './place.js';
import { type Allowance, allowancesOf, chargeStarts, earlier, firstOpening, roomIn } from './limits.js';
import { claimRecord, deltaOf, type Step, tell, touchClaim } from './step.js';
import { endFenced } from './subjects.js';
import { verdictOf } from '../../core/ending.js';
import type { ClaimRecord, Row } from './tables.js';
import { processingView } from './view.js';

const promotedMax = 1_000;
const lapsedMax = 20;
const expiredMax = 500;
/** Longer jobs are never claimed ahead. */
const aheadTimeoutMs = 1_000;

export function claim(step: Step, request: ClaimRequest): Claimed {
  const tended = tend(step);
  const allowances = allowancesOf(step.tables, step.now, request.queues);
  const rows = takeReady(step, request, allowances);
  const taken = rows.taken;
  const nextAt = earlier(step.tables.nextDueAt(), firstOpening(chargeStarts(step, allowances, taken)));
  const nextDueInMs = nextAt === null ? null : Math.max(0, nextAt - step.now);
  if (taken.length === 0) return { epoch: 0, at: step.now, jobs: [], nextDueInMs, more: rows.more || tended.more };
  const record: ClaimRecord = {
    epoch: step.tables.nextEpoch(epochAt(step.now)),
    owner: request.owner,
    at: step.now,
    maxStalls: request.maxStalls,
    seqs: taken.map((row) => row.seq),
    dueAt: step.now + request.leaseMs,
    ahead: taken.slice(request.slots).map((row) => row.seq),
    open: taken.length,
    queues: [...new Set(taken.map((row) => row.queue))],
  };
  step.tables.addClaim(record, taken);
  for (const row of taken) {
    const delta = deltaOf(step, row.queue);
    delta.pending -= 1;
    delta.processing += 1;
    delta.freed -= 1;
    tell(step, 'claimed', row, row.attempts + 1);
  }
  return {
    epoch: record.epoch,
    at: step.now,
    jobs: taken.map((row) => processingView(row, record, true)),
    nextDueInMs,
    more: rows.more || tended.more,
  };
}

function takeReady(
  step: Step,
  request: ClaimRequest,
  allowances: ReadonlyMap<string, Allowance>,
): { taken: Row[]; more: boolean } {
  const { tables } = step;
  const paused = tables.paused();
  const room = roomIn(paused, allowances);
  const want = request.slots + request.ahead;
  const taken: Row[] = [];
  const queues = queuesAwake(request.queues, paused);
  if (queues?.length === 0 || want === 0) return { taken, more: false };
  for (let examined = 0; examined < expiredMax; ) {
    const rows = tables.ready(request.types, queues, room, want - taken.length + 1);
    let ended = 0;
    for (const row of rows) {
      if (isExpired(step, row)) {
        expire(step, row);
        ended += 1;
      } else if (endFenced(step, row)) {
        ended += 1;
      } else if (taken.length === want || (taken.length >= request.slots && !mayBeAhead(row, room))) {
        return { taken, more: true };
      } else {
        tables.take(row);
        taken.push(row);
        const left = room.get(row.queue);
        if (left !== undefined) room.set(row.queue, left - 1);
      }
    }
    if (ended === 0) return { taken, more: false };
    examined += rows.length;
  }
  return { taken, more: true };
}

/** A claim made ahead is a promise to start soon; these jobs are too dear for it, or would keep others from starting. */
function mayBeAhead(row: Row, room: ReadonlyMap<string, number>): boolean {
  if (room.has(row.queue)) return false;
  const { timeoutMs } = policyOf(row.policy);
  return (
    row.exclusiveKey === null && row.stalls === 0 && !row.wary && (timeoutMs === null || timeoutMs <= aheadTimeoutMs)
  );
}

export interface Tended {
  readonly lapsed: number;
  readonly expired: number;
  readonly more: boolean;
}

/** Lapsed claims back, ttl expiry, and what became due: bounded, on every claim and every few seconds. */
export function tend(step: Step): Tended {
  const lapsed = step.tables.lapsedClaims(step.now, lapsedMax);
  for (const { epoch } of lapsed) lapse(step, claimRecord(step, epoch)!);
  const expired = step.tables.expired(step.now, expiredMax);
  for (const row of expired) expire(step, row);
  const promoted = promote(step, promotedMax);
  const more = lapsed.length === lapsedMax || expired.length === expiredMax || promoted === promotedMax;
  return { lapsed: lapsed.length, expired: expired.length, more };
}

function lapse(step: Step, record: ClaimRecord): void {
  for (const seq of record.seqs) {
    const row = step.tables.liveAt(seq);
    if (row && row.epoch < record.epoch) lapseOne(step, row, record);
  }
  record.open = 0;
  touchClaim(step, record);
}

function lapseOne(step: Step, row: Row, record: ClaimRecord): void {
  tell(step, 'stalled', row);
  if (verdictOf('lapse', { cancelRequested: row.cancelAt !== null, runAgain: row.againAt !== null }) === 'cancelled') {
    return endClaimed(step, row, record, 'lapse', 'cancelled', {
      error: { code: 'CANCELLED', message: row.cancelReason! },
    });
  }
  if (record.ahead.includes(row.seq)) {
    row.wary = true;
    return backToPending(step, row, record, 'lapse', row.dueAt);
  }
  row.stalls += 1;
  if (row.stalls >= record.maxStalls) {
    const { id, type, stalls } = row;
    (step.stalled ??= []).push({ id, type, stalls });
    return endClaimed(step, row, record, 'lapse', 'failed', { error: stalledError(stalls) });
  }
  const dueAt = row.stalls >= 2 ? step.now + partingMs(row.id, row.stalls) : row.dueAt;
  backToPending(step, row, record, 'lapse', dueAt);
}

export function extend(step: Step, request: ExtendRequest): Extended {
  keepCard(step, request);
  const lost: string[] = [];
  const cancelled: { id: string; reason: string }[] = [];
  for (const { epoch, ids, started } of request.claims) {
    const record = claimRecord(step, epoch);
    if (record?.owner !== request.owner) {
      lost.push(...ids);
      continue;
    }
    record.dueAt = step.now + request.leaseMs;
    markStarted(step, record, started);
    const held = new Set(record.seqs);
    for (const id of ids) {
      const row = step.tables.live(id);
      if (!row || row.epoch >= epoch || !held.has(row.seq)) lost.push(id);
      else if (row.cancelAt !== null) cancelled.push({ id, reason: row.cancelReason! });
    }
  }
  return { lost, cancelled };
}

function keepCard({ tables, now }: Step, { owner, card, claims, leaseMs }: ExtendRequest): void {
  if (card === null && claims.length > 0) return;
  tables.setCard(owner, card, now + leaseMs);
  tables.dropCards(now);
}

export function markStarted(step: Step, record: ClaimRecord, started: readonly string[]): void {
  touchClaim(step, record);
  if (started.length === 0 || record.ahead.length === 0) return;
  const { tables } = step;
  const begun = new Set(started.map((id) => tables.seqHeld?.(id, record.epoch) ?? tables.live(id)?.seq));
  record.ahead = record.ahead.filter((seq) => !begun.has(seq));
}
