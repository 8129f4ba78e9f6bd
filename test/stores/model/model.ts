// What a store must do, said as plainly as possible: every rule of DESIGN.md over a list of jobs.
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import type { Ending } from '../../../src/core/ending.js';
import type { FinishedState } from '../../../src/core/job.js';
import type { QueueLimits } from '../../../src/core/limits.js';
import type { CleanupPolicy } from '../../../src/core/policy.js';
import type {
  ClaimRequest,
  ExtendRequest,
  Extended,
  HeldClaim,
  Inserted,
  Move,
  Moved,
  MoveOutcome,
  NewJob,
  Note,
  QueueTally,
  SettleAnswer,
  Settlement,
  Swept,
  When,
} from '../../../src/core/store.js';
import {
  inOrder,
  isOver,
  isPending,
  isReplaced,
  keepOf,
  makeJob,
  type ModelClaim,
  type ModelError,
  type ModelJob,
  policyOf,
  stateOf,
  type Tomb,
} from './jobs.js';

const lapsedPerPass = 20;
const unlimited: QueueLimits = { maxPending: null, concurrency: null, rate: null };

/** Why a batch is refused as a whole. */
export interface Refusal {
  readonly code: string;
  readonly details: object;
}

export interface ModelClaimed {
  readonly ids: readonly string[];
  readonly nextDueInMs: number | null;
  readonly more: boolean;
}

export class Model {
  now: number;
  /** In the order of insertion. */
  jobs: ModelJob[] = [];
  readonly tombs = new Map<string, Tomb>();
  claims: ModelClaim[] = [];
  /** Queues that were paused (true) or resumed by their names. */
  readonly paused = new Map<string, boolean>();
  allPaused = false;
  readonly limits = new Map<string, QueueLimits>();
  /** When jobs of a queue with a rate started, oldest first. */
  readonly starts = new Map<string, number[]>();
  /** Entries into a state, as `name id`, since they were last asked for. */
  events: string[] = [];
  #inserted = 0;

  /** `partedUntil` tells when a job that stalled twice comes back: the store may choose, within 30 seconds. */
  constructor(
    now: number,
    readonly partedUntil: (id: string) => number,
  ) {
    this.now = now;
  }

  byId(id: string): ModelJob | undefined {
    return this.jobs.find((job) => job.given.id === id);
  }

  // ---- insert -------------------------------------------------------------------------------------------------

  /** With `atomic` the answer may be why the whole batch is refused. */
  insert(batch: readonly NewJob[], atomic: boolean): Inserted[] | Refusal {
    const refusal = atomic ? (this.#conflictIn(batch) ?? this.#fullFor(batch)) : null;
    return refusal ?? batch.map((job) => (atomic ? null : this.#full(job)) ?? this.#insertOne(job));
  }

  #insertOne(job: NewJob): Inserted {
    return this.#knownId(job) ?? this.#deduplicate(job) ?? this.#create(job, null);
  }

  #conflictIn(batch: readonly NewJob[]): Refusal | null {
    const index = batch.findIndex(
      (job, i) =>
        job.idGiven &&
        (this.#knownId(job)?.outcome === 'refused' ||
          batch.slice(0, i).some((earlier) => earlier.idGiven && earlier.id === job.id && !isSame(earlier, job))),
    );
    return index < 0 ? null : { code: 'IDEMPOTENCY_CONFLICT', details: { index } };
  }

  #knownId(job: NewJob): Inserted | null {
    const known = this.byId(job.id)?.given ?? this.tombs.get(job.id);
    if (!known) return null;
    if (!job.idGiven || isSame(known, job)) return { id: job.id, outcome: 'existing' };
    return { id: job.id, outcome: 'refused', code: 'IDEMPOTENCY_CONFLICT', message: '' };
  }

  #deduplicate(job: NewJob): Inserted | null {
    const { deduplication } = job;
    if (deduplication === 'none') return null;
    const pending: ModelJob[] = [];
    const over: ModelJob[] = [];
    let running: ModelJob | undefined;
    for (const match of this.#liveMatches(job)) {
      if (match.claim) {
        if (match.cancel) continue;
        running ??= match;
        if (deduplication !== 'skip' || match.againAt === null) continue;
      } else if (isOver(match, this.now)) {
        over.push(match);
        continue;
      }
      pending.push(match);
      if (deduplication !== 'replace') break;
    }
    for (const match of over) this.#expire(match);
    const newest = pending[0];
    if (deduplication === 'skip') return newest ? { id: newest.given.id, outcome: 'skipped' } : null;
    if (deduplication === 'coalesce') return this.#coalesce(newest, running, this.#instant(job.when));
    for (const match of pending)
      this.#endPending(match, 'failed', { code: 'REPLACED', message: 'Replaced by newer job' });
    if (!newest) return null;
    return { ...this.#create(job, null), outcome: 'replaced', replaced: newest.given.id };
  }

  #coalesce(newest: ModelJob | undefined, running: ModelJob | undefined, dueAt: number): Inserted | null {
    if (newest) {
      if (newest.given.ttlMs !== null) newest.expiresAt = this.now + newest.given.ttlMs;
      this.#replace(newest, dueAt, newest.priority);
    } else if (running) {
      running.againAt = dueAt;
      if (running.given.ttlMs !== null) running.expiresAt = this.now + running.given.ttlMs;
    }
    const match = newest ?? running;
    return match ? { id: match.given.id, outcome: 'coalesced' } : null;
  }

  #liveMatches({ type, key }: NewJob): ModelJob[] {
    const matches = this.jobs.filter(
      ({ finished, given }) => finished === null && given.type === type && (key === null || given.key === key),
    );
    return matches.reverse();
  }

  #create(given: NewJob, retryOf: string | null): { id: string; outcome: 'created' } {
    this.#inserted += 1;
    const job = makeJob(this.#inserted, given, this.#instant(given.when), this.now, retryOf);
    this.jobs.push(job);
    this.#stand(job);
    this.events.push(`created ${given.id}`);
    return { id: given.id, outcome: 'created' };
  }

  #instant(when: When): number {
    return 'inMs' in when ? this.now + when.inMs : Math.max(when.at, this.now);
  }

  // ---- limits -------------------------------------------------------------------------------------------------

  limit(queue: string, limits: QueueLimits): void {
    this.limits.set(queue, limits);
    if (limits.rate === null) this.starts.delete(queue);
  }

  pendingIn(queue: string): number {
    return this.jobs.filter((job) => job.given.queue === queue && stateOf(job, this.now) === 'pending').length;
  }

  /** Whether a job adds one to its queue is found out by adding it, in thought. */
  #full(job: NewJob): Inserted | null {
    const { queue, id } = job;
    const maxPending = this.limits.get(queue)?.maxPending ?? Number.POSITIVE_INFINITY;
    const pending = this.pendingIn(queue);
    if (pending < maxPending) return null;
    const thought = this.#thought();
    thought.#insertOne(job);
    if (thought.pendingIn(queue) <= pending) return null;
    const details = { queue, maxPending, pending, retryAfterMs: 1_000 };
    return { id, outcome: 'refused', code: 'QUEUE_FULL', message: '', details };
  }

  /** All or none: the whole batch in thought, job by job. */
  #fullFor(batch: readonly NewJob[]): Refusal | null {
    if (![...this.limits.values()].some(({ maxPending }) => maxPending !== null)) return null;
    const thought = this.#thought();
    for (const [index, job] of batch.entries()) {
      const answer = thought.#full(job) ?? thought.#insertOne(job);
      if (answer.outcome !== 'refused') continue;
      return { code: answer.code, details: { ...answer.details, pending: this.pendingIn(job.queue), index } };
    }
    return null;
  }

  #thought(): Model {
    const { jobs, claims, tombs } = structuredClone({ jobs: this.jobs, claims: this.claims, tombs: this.tombs });
    const thought = new Model(this.now, this.partedUntil);
    Object.assign(thought, { jobs, claims, tombs, limits: this.limits });
    thought.#inserted = this.#inserted;
    return thought;
  }

  /** How many jobs of a queue may start now. */
  #room(queue: string): number {
    const { concurrency, rate } = this.limits.get(queue) ?? unlimited;
    const running = this.jobs.filter((job) => job.claim && job.given.queue === queue).length;
    const slots = (concurrency ?? Number.POSITIVE_INFINITY) - running;
    return Math.min(slots, (rate?.max ?? Number.POSITIVE_INFINITY) - this.#startsIn(queue).length);
  }

  /** Those that still count: a window is open at its old end. */
  #startsIn(queue: string): number[] {
    const { rate } = this.limits.get(queue) ?? unlimited;
    return rate ? (this.starts.get(queue) ?? []).filter((at) => at > this.now - rate.perMs) : [];
  }

  #opensAt(queue: string): number | null {
    const { rate } = this.limits.get(queue) ?? unlimited;
    const starts = this.#startsIn(queue);
    return rate && starts.length >= rate.max ? starts[starts.length - rate.max]! + rate.perMs : null;
  }

  isPaused(queue: string): boolean {
    return this.paused.get(queue) ?? (this.allPaused && queue !== 'lastout');
  }

  /** What runs under a claim that has lapsed holds no slot. */
  blockOf(queue: string): Pick<QueueTally, 'blockedBy' | 'blockedUntil' | 'full'> {
    const { maxPending, concurrency } = this.limits.get(queue) ?? unlimited;
    const full = this.pendingIn(queue) >= (maxPending ?? Number.POSITIVE_INFINITY);
    const held = this.jobs.filter(
      ({ claim, given }) => claim && claim.dueAt > this.now && given.queue === queue,
    ).length;
    if (this.isPaused(queue)) return { blockedBy: 'paused', blockedUntil: null, full };
    if (held >= (concurrency ?? Number.POSITIVE_INFINITY))
      return { blockedBy: 'concurrency', blockedUntil: null, full };
    const blockedUntil = this.#opensAt(queue);
    return { blockedBy: blockedUntil === null ? null : 'rate', blockedUntil, full };
  }

  // ---- places and turns ---------------------------------------------------------------------------------------

  #sameKey(job: ModelJob): ModelJob[] {
    const { type, queue, exclusiveKey } = job.given;
    if (exclusiveKey === null) return [];
    return this.jobs.filter(
      ({ given, finished }) =>
        finished === null && given.type === type && given.queue === queue && given.exclusiveKey === exclusiveKey,
    );
  }

  #stand(job: ModelJob): void {
    const taken = this.#sameKey(job).some((other) => other !== job && (other.claim || other.place === 'ready'));
    job.place = job.dueAt > this.now ? 'later' : taken ? 'behind' : 'ready';
  }

  /** When nobody has the turn of a key, the first behind gets it. */
  #passTurn(job: ModelJob): void {
    const line = this.#sameKey(job);
    if (line.some((other) => other.claim || other.place === 'ready')) return;
    const next = line.filter(({ place }) => place === 'behind').sort(inOrder)[0];
    if (next) next.place = 'ready';
  }

  #replace(job: ModelJob, dueAt: number, priority: number): void {
    job.place = 'nowhere';
    this.#passTurn(job);
    job.dueAt = dueAt;
    job.priority = priority;
    this.#stand(job);
  }

  // ---- endings ------------------------------------------------------------------------------------------------

  #enter(job: ModelJob, state: FinishedState, error: ModelError | null, result: string | null, at: number): void {
    job.place = 'nowhere';
    job.finished = state;
    job.completedAt = at;
    job.error = error;
    job.result = result;
    job.againAt = null;
    this.events.push(`${isReplaced(job) ? 'replaced' : state} ${job.given.id}`);
    this.#passTurn(job);
  }

  #endPending(job: ModelJob, state: FinishedState, error: ModelError, at = this.now): void {
    this.#enter(job, state, error, null, at);
  }

  #expire(job: ModelJob): void {
    this.#endPending(job, 'expired', { code: 'EXPIRED' }, job.expiresAt!);
  }

  #leaveClaim(job: ModelJob, kind: ModelJob['left']): void {
    const claim = job.claim!;
    if (!job.waiting || (kind !== 'release' && kind !== 'lapse')) job.startedAt ??= claim.at;
    job.claim = null;
    job.waiting = false;
    job.lastEpoch = claim.epoch;
    job.left = kind;
    if (claim.jobs.every((other) => other.claim !== claim)) this.claims = this.claims.filter((one) => one !== claim);
  }

  #endClaimed(
    job: ModelJob,
    kind: ModelJob['left'],
    state: FinishedState,
    error: ModelError | null,
    result: string | null = null,
  ): void {
    this.#leaveClaim(job, kind);
    this.#enter(job, state, error, result, this.now);
  }

  #back(job: ModelJob, kind: ModelJob['left'], dueAt: number): void {
    if (isOver(job, this.now)) return this.#endClaimed(job, kind, 'expired', { code: 'EXPIRED' });
    const owner = this.#slotOwner(job);
    if (owner && isOver(owner, this.now)) this.#expire(owner);
    else if (owner) return this.#endClaimed(job, kind, 'cancelled', { code: 'SUPERSEDED' });
    this.#leaveClaim(job, kind);
    job.dueAt = dueAt;
    job.againAt = null;
    // It stands in line with the others: who is first of them gets the turn.
    job.place = dueAt > this.now ? 'later' : job.given.exclusiveKey === null ? 'ready' : 'behind';
    this.#passTurn(job);
  }

  #slotOwner({ slot, given }: ModelJob): ModelJob | undefined {
    if (slot === null) return undefined;
    return this.jobs.find((job) => isPending(job) && job.given.type === given.type && job.slot === slot);
  }

  // ---- claim --------------------------------------------------------------------------------------------------

  tend(): { lapsed: number; expired: number } {
    const lapsed = this.claims
      .filter(({ dueAt }) => dueAt <= this.now)
      .sort((a, b) => a.dueAt - b.dueAt || a.epoch - b.epoch)
      .slice(0, lapsedPerPass);
    for (const claim of lapsed) for (const job of claim.jobs) if (job.claim === claim) this.#lapse(job, claim);
    const expired = this.#expireAll();
    const due = this.jobs.filter((job) => job.place === 'later' && job.dueAt <= this.now);
    for (const job of due.sort((a, b) => a.dueAt - b.dueAt || a.number - b.number)) this.#stand(job);
    return { lapsed: lapsed.length, expired };
  }

  #expireAll(): number {
    const over = this.jobs.filter((job) => isPending(job) && isOver(job, this.now));
    over.sort((a, b) => a.expiresAt! - b.expiresAt! || a.number - b.number);
    for (const job of over) this.#expire(job);
    return over.length;
  }

  #lapse(job: ModelJob, { maxStalls }: ModelClaim): void {
    this.events.push(`stalled ${job.given.id}`);
    if (job.cancel) return this.#endClaimed(job, 'lapse', 'cancelled', cancellation(job));
    if (job.waiting) {
      job.wary = true;
      return this.#back(job, 'lapse', job.dueAt);
    }
    job.stalls += 1;
    if (job.stalls >= maxStalls) return this.#endClaimed(job, 'lapse', 'failed', { code: 'STALLED' });
    this.#back(job, 'lapse', job.stalls >= 2 ? this.#parted(job) : job.dueAt);
  }

  #parted(job: ModelJob): number {
    const owner = this.#slotOwner(job);
    if (isOver(job, this.now) || (owner && !isOver(owner, this.now))) return this.now; // it does not come back at all
    const until = this.partedUntil(job.given.id);
    assert.ok(until >= this.now && until <= this.now + 30_000, `${job.given.id} is back within 30 seconds`);
    return until;
  }

  claim(request: ClaimRequest, epoch: number): ModelClaimed {
    this.tend();
    const { taken, more } = this.#take(request);
    for (const { given } of taken)
      if (this.limits.get(given.queue)?.rate)
        this.starts.set(given.queue, [...(this.starts.get(given.queue) ?? []), this.now]);
    const later = this.jobs.filter(({ place }) => place === 'later').map(({ dueAt }) => dueAt);
    const asked = [...this.limits.keys()].filter((queue) => request.queues?.includes(queue) ?? true);
    const openings = asked.map((queue) => this.#opensAt(queue)).filter((at) => at !== null);
    const nextDueInMs = later.length + openings.length === 0 ? null : Math.min(...later, ...openings) - this.now;
    if (taken.length > 0) {
      const { owner, maxStalls, leaseMs, slots } = request;
      const claim = { epoch, owner, at: this.now, maxStalls, jobs: taken, dueAt: this.now + leaseMs };
      this.claims.push(claim);
      taken.forEach((job, index) => {
        Object.assign(job, { claim, waiting: index >= slots, place: 'nowhere' });
        this.events.push(`claimed ${job.given.id}`);
      });
    }
    return { ids: taken.map(({ given }) => given.id), nextDueInMs, more };
  }

  #take({ types, queues, slots, ahead }: ClaimRequest): { taken: ModelJob[]; more: boolean } {
    const taken: ModelJob[] = [];
    if (slots + ahead === 0) return { taken, more: false };
    const ready = this.jobs
      .filter(
        ({ place, given: { type, queue } }) =>
          place === 'ready' &&
          types.includes(type) &&
          (queues === null || queues.includes(queue)) &&
          !this.isPaused(queue),
      )
      .sort(inOrder);
    for (const job of ready) {
      const { queue } = job.given;
      const room = this.#room(queue) - taken.filter(({ given }) => given.queue === queue).length;
      if (room <= 0) continue;
      const asked = taken.length < slots || (taken.length < slots + ahead && room === Infinity && mayWait(job));
      if (!asked) return { taken, more: true };
      taken.push(job);
    }
    return { taken, more: false };
  }

  /** What an owner holds. */
  heldBy(owner: string): HeldClaim[] {
    return this.claims
      .filter((claim) => claim.owner === owner)
      .map((claim) => ({
        epoch: claim.epoch,
        ids: claim.jobs.filter((job) => job.claim === claim).map(({ given }) => given.id),
      }));
  }

  due(types: readonly string[], queues: readonly string[] | null, limit: number): number {
    const due = this.jobs.filter(
      (job) =>
        stateOf(job, this.now) === 'pending' &&
        job.dueAt <= this.now &&
        types.includes(job.given.type) &&
        (queues?.includes(job.given.queue) ?? true),
    );
    return Math.min(due.length, limit);
  }

  extend({ owner, leaseMs, claims }: ExtendRequest): Extended {
    const lost: string[] = [];
    const cancelled: { id: string; reason: string }[] = [];
    for (const { epoch, ids, started } of claims) {
      const claim = this.claims.find((one) => one.epoch === epoch && one.owner === owner);
      if (claim) claim.dueAt = this.now + leaseMs;
      for (const id of ids) {
        const job = this.byId(id);
        if (!claim || job?.claim !== claim) lost.push(id);
        else if (job.cancel) cancelled.push({ id, reason: job.cancel.reason });
      }
      for (const id of started) this.#begin(id, claim);
    }
    return { lost, cancelled };
  }

  #begin(id: string, claim: ModelClaim | undefined): void {
    const job = this.byId(id);
    if (claim && job?.claim === claim) job.waiting = false;
  }

  // ---- settle -------------------------------------------------------------------------------------------------

  settle(
    owner: string,
    settlements: readonly Settlement[],
    started: readonly { id: string; epoch: number }[],
  ): SettleAnswer[] {
    const answers = settlements.map(({ id, epoch, ending, memo, then }) => {
      const job = this.#held(owner, id, epoch);
      if (!job) return this.#late(id, epoch, ending);
      job.memo = memo ?? job.memo;
      if (memo !== undefined) job.stalls = 0; // it came through
      this.#leave(job, ending);
      for (const one of then ?? []) this.#insertOne(one); // no limit refuses them
      return 'ok';
    });
    for (const { id, epoch } of started)
      this.#begin(
        id,
        this.claims.find((claim) => claim.epoch === epoch && claim.owner === owner),
      );
    return answers;
  }

  #held(owner: string, id: string, epoch: number): ModelJob | undefined {
    const job = this.byId(id);
    return job?.claim?.epoch === epoch && job.claim.owner === owner ? job : undefined;
  }

  /** The same ending again is ok; another one, or one after the claim was taken away, is not. */
  #late(id: string, epoch: number, ending: Ending): SettleAnswer {
    const job = this.byId(id);
    const tomb = this.tombs.get(id);
    const last = job ? { epoch: job.lastEpoch, left: job.left } : tomb;
    if (last?.epoch !== epoch || last.left === null || last.left === 'lapse') return 'STALE_CLAIM';
    const otherResult = ending.kind === 'complete' && job?.finished === 'completed' && job.result !== ending.result;
    return last.left === ending.kind && !otherResult ? 'ok' : 'ALREADY_SETTLED';
  }

  /** The table of DESIGN.md, row by row. */
  #leave(job: ModelJob, ending: Ending): void {
    const { kind } = ending;
    const own = 'error' in ending ? (JSON.parse(ending.error) as ModelError) : null;
    const asked = job.cancel !== null;
    if (kind === 'release')
      return asked ? this.#endClaimed(job, kind, 'cancelled', cancellation(job)) : this.#back(job, kind, job.dueAt);
    const used = job.attempts + 1;
    if (kind === 'cancel' || (asked && kind !== 'complete' && kind !== 'fail')) {
      job.attempts = used;
      return this.#endClaimed(job, kind, 'cancelled', asked ? cancellation(job) : own);
    }
    if (job.againAt !== null && !asked) return this.#again(job, ending);
    if (kind === 'snooze') return this.#back(job, kind, this.#instant(ending.when));
    job.attempts = used;
    if (kind === 'complete') return this.#endClaimed(job, kind, 'completed', null, ending.result);
    if (kind !== 'retry') return this.#endClaimed(job, kind, 'failed', own);
    job.error = own;
    this.#back(job, kind, this.now + ending.inMs);
  }

  #again(job: ModelJob, ending: Ending): void {
    const marked = Math.max(job.againAt!, this.now);
    job.attempts = 0;
    job.error = null;
    if (job.given.ttlMs !== null) job.expiresAt = this.now + job.given.ttlMs;
    this.#back(job, ending.kind, ending.kind === 'snooze' ? Math.min(marked, this.#instant(ending.when)) : marked);
  }

  note(owner: string, { id, epoch, progress, lines }: Note): SettleAnswer {
    const job = this.#held(owner, id, epoch);
    if (!job) return 'STALE_CLAIM';
    job.progress = progress ?? job.progress;
    job.lines += lines.length;
    return 'ok';
  }

  // ---- move ---------------------------------------------------------------------------------------------------

  /** Newest first. */
  move(matches: (job: ModelJob) => boolean, move: Move, dryRun: boolean): Moved['items'] {
    const newIds = move.kind === 'retry' ? [...move.newIds] : [];
    return this.jobs
      .filter((job) => matches(job) && !(move.kind === 'retry' && move.failuresOnly && isReplaced(job)))
      .reverse()
      .map((job) => {
        const { id } = job.given;
        if (move.kind === 'retry') return { id, ...this.#retry(job, move, newIds, dryRun) };
        if (move.kind === 'cancel') return { id, outcome: this.#cancel(job, move.reason, move.force, dryRun) };
        if (move.kind === 'remove') return { id, outcome: this.#removeByHand(job, move.force, dryRun) };
        if (stateOf(job, this.now) !== 'pending') return { id, outcome: 'not_pending' };
        if (move.kind !== 'reschedule') throw new Error(`The model does not know ${move.kind}`);
        const { when, priority } = move;
        if (!dryRun) this.#replace(job, when ? this.#instant(when) : job.dueAt, priority ?? job.priority);
        return { id, outcome: 'moved' };
      });
  }

  #cancel(job: ModelJob, reason: string, force: boolean, dryRun: boolean): MoveOutcome {
    const state = stateOf(job, this.now);
    if (state !== 'pending' && state !== 'processing') return `already:${state}`;
    const error = { code: 'CANCELLED', message: reason };
    const request = state === 'processing' && !force;
    if (dryRun) return request ? 'requested' : 'cancelled';
    if (request) job.cancel ??= { at: this.now, reason };
    else if (job.claim) this.#endClaimed(job, 'lapse', 'cancelled', error);
    else this.#endPending(job, 'cancelled', error);
    return request ? 'requested' : 'cancelled';
  }

  #removeByHand(job: ModelJob, force: boolean, dryRun: boolean): MoveOutcome {
    if (job.claim && !force) return 'not_finished';
    if (!dryRun) this.#remove(job);
    return 'removed';
  }

  #remove(job: ModelJob): void {
    if (job.claim) this.#leaveClaim(job, 'lapse');
    const { id, type, input } = job.given;
    this.jobs = this.jobs.filter((other) => other !== job);
    this.tombs.set(id, { type, input, epoch: job.lastEpoch, left: job.left });
    this.events.push(`removed ${id}`);
    this.#passTurn(job);
  }

  #retry(
    job: ModelJob,
    move: Move & { kind: 'retry' },
    newIds: string[],
    dryRun: boolean,
  ): { outcome: MoveOutcome; newId?: string } {
    const state = stateOf(job, this.now);
    if (state === 'pending' || state === 'processing') return { outcome: 'not_finished' };
    if (job.retriedAs !== null && move.newIds.includes(job.retriedAs))
      return { outcome: 'retried', newId: job.retriedAs };
    if (job.retriedAs !== null && !move.again) return { outcome: 'already_retried', newId: job.retriedAs };
    const owner = this.#slotOwner(job);
    if (owner && !isOver(owner, this.now)) return { outcome: 'skipped', newId: owner.given.id };
    if (dryRun) return { outcome: 'retried' };
    const newId = newIds.shift()!;
    for (const late of new Set([owner, job])) if (late && isPending(late)) this.#expire(late);
    const { priority, given } = job;
    this.#create({ ...given, id: newId, idGiven: false, priority, when: { inMs: 0 } }, given.id);
    job.retriedAs = newId;
    return { outcome: 'retried', newId };
  }

  pause(queue: string | null, paused: boolean): void {
    if (queue === null) {
      this.allPaused = paused;
      for (const [name, stands] of this.paused) if (!paused || !stands) this.paused.delete(name);
    } else if (paused || (this.allPaused && queue !== 'lastout')) this.paused.set(queue, paused);
    else this.paused.delete(queue);
  }

  // ---- sweep --------------------------------------------------------------------------------------------------

  sweep(cleanup: CleanupPolicy | null): Omit<Swept, 'more'> {
    const tended = this.tend();
    const removedBy = { age: 0, count: 0, cap: 0 };
    if (cleanup) {
      removedBy.age = this.#removeAll(this.overAge(cleanup, this.now));
      removedBy.count = this.#removeAll(this.#overCount());
      const excess = Math.max(0, this.jobs.length - cleanup.maxStoredJobs);
      removedBy.cap = this.#removeAll(this.#oldestEnded().slice(0, excess));
    }
    const examined = tended.lapsed + tended.expired + removedBy.age + removedBy.count + removedBy.cap;
    return { ...tended, fenced: 0, removedBy, examined, owing: [], dueThings: [] };
  }

  #removeAll(jobs: readonly ModelJob[]): number {
    for (const job of jobs) this.#remove(job);
    return jobs.length;
  }

  #oldestEnded(): ModelJob[] {
    const ended = this.jobs.filter(({ finished }) => finished !== null);
    return ended.sort((a, b) => a.completedAt! - b.completedAt! || a.number - b.number);
  }

  overAge({ jobRetentionMs, useCompletedTime }: CleanupPolicy, now: number): ModelJob[] {
    return this.#oldestEnded().filter((job) => {
      const { ageMs } = keepOf(job);
      if (ageMs === null) return false;
      if (ageMs !== undefined) return now > job.completedAt! + ageMs;
      return now > (useCompletedTime ? job.completedAt! : job.createdAt) + jobRetentionMs;
    });
  }

  #overCount(): ModelJob[] {
    const ended = this.#oldestEnded();
    return ended.filter((job, index) => {
      const { count } = keepOf(job);
      const newer = ended
        .slice(index + 1)
        .filter((other) => other.given.type === job.given.type && other.finished === job.finished);
      return count !== undefined && newer.length >= count;
    });
  }
}

const cancellation = (job: ModelJob): ModelError => ({ code: 'CANCELLED', message: job.cancel!.reason });

function isSame(a: { type: string; input: string }, b: { type: string; input: string }): boolean {
  return a.type === b.type && isDeepStrictEqual(JSON.parse(a.input), JSON.parse(b.input));
}

/** May be claimed ahead: short, free, and never in the hands of a worker that died. */
function mayWait(job: ModelJob): boolean {
  const { timeoutMs } = policyOf(job);
  return job.given.exclusiveKey === null && job.stalls === 0 && !job.wary && (timeoutMs === null || timeoutMs <= 1_000);
}
