/**
 * A worker: slots → claim → run → settle. An exchange with the store carries the endings that have gathered and asks for
 * as many jobs as there are free slots (and, for short jobs, some ahead). One is under way at a time, or two where there
 * is much to carry. Between exchanges the worker is woken by a hint, by the next due job, or by the poll.
 */
import { isUnknown } from '../core/deadlines.js';
import type { TypeDetails } from '../core/definition.js';
import type { Failures } from '../core/failures.js';
import type { Job, Logger } from '../core/job.js';
import type { Meters } from '../core/meters.js';
import type { BelongingsOf, BoundLeasesOf, Reach } from '../core/owned.js';
import type { Claimed, ClaimRequest, Hint, SettleAnswer, Settlement, Store, StoredJob } from '../core/store.js';
import type { WorkerReport } from '../core/stop-report.js';
import type { AskSubject } from '../core/subject.js';
import type { System } from '../core/system.js';
import { thisTurn } from '../core/this-turn.js';
import type { Tracing } from '../core/tracing.js';
import { aheadWaitMaxMs } from './ahead.js';
import { Claim, Claims } from './claims.js';
import { createHeart, type Heart } from './heart.js';
import { measureSettled, tellFailure } from './measure.js';
import type { WorkerSettings } from './options.js';
import { createPatience, type Patience } from './patience.js';
import type { Run } from './run.js';
import { Slots } from './slots.js';
import { stopWorker } from './stop.js';

/** Most endings, and most jobs asked for ahead, that one exchange carries. */
const batchMax = 500;
/** A second exchange goes out beside the first with no less than this. */
const worthASecond = batchMax / 2;

export interface WorkerParts {
  readonly store: Store;
  readonly system: System;
  readonly logger: Logger;
  readonly failures: Failures;
  readonly types: ReadonlyMap<string, TypeDetails>;
  readonly settings: WorkerSettings;
  readonly belongingsOf: BelongingsOf;
  readonly reach: Reach;
  readonly boundLeasesOf: BoundLeasesOf;
  readonly meters: Meters;
  /** Null: no spans are made. */
  readonly tracing: Tracing | null;
  readonly askSubject: AskSubject;
  toJob(stored: StoredJob, input: unknown): Job;
}

/** An ending on its way to the store. Null: of a claim that we never heard of. */
interface Ended {
  readonly settlement: Settlement;
  readonly run: Run | null;
}

/** What goes to the store in one call. */
interface Exchange {
  readonly ended: readonly Ended[];
  readonly begun: readonly Run[];
  readonly request: ClaimRequest | null;
  readonly number: number;
  /** How many hints had come: a claim may have looked too early to see the reason for a later one. */
  readonly hints: number;
}

export class Worker {
  readonly id: string;
  readonly claims = new Claims();
  readonly slots: Slots;
  readonly handedBack = new Set<string>();
  finished = 0;
  /** Handlers that came to an end, whether or not the store has answered. */
  ran = 0;
  #endings: Ended[] = [];
  /** Sent and not answered yet, and how many jobs they ask for. */
  readonly #underWay = new Set<Exchange>();
  #askedSlots = 0;
  #askedAhead = 0;
  #sent = 0;
  #hints = 0;
  #pumpScheduled = false;
  isStopping = false;
  #stopped: Promise<WorkerReport> | null = null;
  /** The last claim found nothing to start: wait for a hint, a free slot or the poll. */
  idle = false;
  /** The last claim said that more is ready. */
  moreReady = false;
  /** The number of that claim: answers may overtake one another. */
  #lastAnswered = 0;
  /** It gave nothing ahead that was asked for, and a slot is free: the next one asks for the slot, as soon as it may. */
  #aheadRefused = false;
  #pollAt = Number.POSITIVE_INFINITY;
  #callOffPoll: () => void = () => undefined;
  #shutDown = false;
  /** A claim may have been made whose answer never came. */
  #unsure = false;
  /** Aborted when the grace of any stop is over: a later, shorter one counts. */
  readonly graceOver = new AbortController();
  readonly #callOffGraces: (() => void)[] = [];
  readonly #types: readonly string[];
  readonly #heart: Heart;
  readonly #patience: Patience;
  readonly #unsubscribe: () => void;
  readonly #letGo: () => void;
  readonly #drained = new Set<() => void>();

  constructor(readonly parts: WorkerParts) {
    const { system, types, settings } = parts;
    this.id = system.id();
    this.#types = [...types.keys()];
    this.slots = new Slots(this);
    this.#heart = createHeart(this);
    this.#patience = createPatience(system, parts.logger, () => this.schedulePump());
    this.#unsubscribe = parts.store.subscribe((hint) => this.hear(hint));
    this.#letGo = settings.unref ? () => undefined : system.stayAlive();
    this.#armPoll(settings.pollMs);
    this.schedulePump();
    this.#heart.start();
  }

  get running(): readonly string[] {
    return this.claims.running.map(({ id }) => id);
  }

  stop(graceMs: number): Promise<WorkerReport> {
    this.isStopping = true;
    if (!this.#shutDown)
      this.#callOffGraces.push(this.parts.system.timer(graceMs, () => this.graceOver.abort(), 'hold'));
    this.#stopped ??= stopWorker(this);
    return this.#stopped;
  }

  // ---- waking up ----------------------------------------------------------------------------------------------

  hear(hint: Hint): void {
    if (hint.kind === 'ready') {
      if (!hint.types.has('*') && !this.#types.some((type) => hint.types.has(type))) return;
      this.idle = false;
      this.#hints += 1;
      this.schedulePump();
    } else if (hint.kind === 'later' && hint.inMs < this.parts.settings.pollMs) {
      this.#armPoll(hint.inMs);
    } else if (hint.kind === 'cancel') {
      this.#heart.beatNow();
    } else if (hint.kind === 'pause') {
      this.slots.giveBackAhead();
    }
  }

  /** The sooner of what is armed and what is asked for: a later job never postpones an earlier one. */
  #armPoll(ms: number): void {
    const { system, settings } = this.parts;
    const at = system.monotonic() + ms;
    if (at >= this.#pollAt) return;
    this.#callOffPoll();
    this.#pollAt = at;
    this.#callOffPoll = system.timer(ms, () => {
      this.#pollAt = Number.POSITIVE_INFINITY;
      this.#armPoll(settings.pollMs);
      this.idle = false;
      this.slots.giveBackWaiting();
      this.schedulePump();
    });
  }

  schedulePump(): void {
    if (this.#pumpScheduled) return;
    this.#pumpScheduled = true;
    void thisTurn.then(() => this.#pump());
  }

  #pump(): void {
    this.#pumpScheduled = false;
    if (this.#shutDown) return;
    this.slots.startAhead();
    while (this.#maySend && (this.#wantsJobs || this.#endings.length > 0 || this.#unsure)) void this.#exchange();
    if (this.isDrained) for (const resolve of this.#drained) resolve();
  }

  // ---- exchanges ----------------------------------------------------------------------------------------------

  /** While the store works on one exchange, the handlers' side goes on; what fits into the next one waits for it. */
  get #maySend(): boolean {
    if (this.#patience.isWaiting) return false;
    if (this.#underWay.size === 0) return true;
    if (this.#underWay.size > 1 || this.#unsure) return false;
    return this.#endings.length >= worthASecond || (this.moreReady && this.#aheadWanted >= worthASecond);
  }

  get #wantsJobs(): boolean {
    return this.#slotsWanted > 0 || this.#aheadWanted > 0;
  }

  /** Neither in use nor asked for. */
  get freeSlots(): number {
    return this.parts.settings.concurrency - this.slots.running - this.#askedSlots;
  }

  /** Two claims under way may be answered in any order; a worker that runs one job at a time keeps the order. */
  get #mayClaim(): boolean {
    if (this.isStopping || this.idle) return false;
    return this.parts.settings.concurrency > 1 || this.#askedSlots + this.#askedAhead === 0;
  }

  /** What was claimed or asked for ahead comes first. */
  get #slotsWanted(): number {
    if (!this.#mayClaim || this.slots.waiting + this.#askedAhead > 0) return 0;
    return Math.max(0, this.freeSlots);
  }

  get #aheadWanted(): number {
    if (!this.#mayClaim || (this.#aheadRefused && this.#askedAhead > 0)) return 0;
    const waiting = this.slots.waiting + this.#askedAhead;
    return waiting > this.slots.aheadTarget / 2 ? 0 : Math.min(this.slots.aheadTarget - waiting, batchMax);
  }

  #nextExchange(): Exchange {
    const { queues, leaseMs, maxStalls } = this.parts.settings;
    const slots = this.#slotsWanted;
    // No more than the endings that one exchange carries: else they would pile up while short jobs are many.
    const ahead = Math.max(0, Math.min(this.#aheadWanted, batchMax - slots));
    const request = { owner: this.id, types: this.#types, queues, slots, ahead, leaseMs, maxStalls };
    const ended = this.#endings.splice(0, batchMax);
    this.#sent += 1;
    return {
      ended,
      begun: ended.length > 0 ? this.claims.takeBegun() : [],
      request: slots + ahead > 0 ? request : null,
      number: this.#sent,
      hints: this.#hints,
    };
  }

  async #exchange(): Promise<void> {
    const exchange = this.#nextExchange();
    const { ended, begun, request } = exchange;
    this.#underWay.add(exchange);
    this.#askedSlots += request?.slots ?? 0;
    this.#askedAhead += request?.ahead ?? 0;
    try {
      if (this.#unsure) await this.#handBackUnknown();
      await this.#send(exchange);
    } catch (error) {
      this.#endings.unshift(...ended);
      for (const run of begun) this.claims.begun(run);
      if (request && isUnknown(error)) this.#unsure = true;
      this.#patience.failed(error, this.#endings.length > 0);
    }
    this.#askedSlots -= request?.slots ?? 0;
    this.#askedAhead -= request?.ahead ?? 0;
    this.#underWay.delete(exchange);
    this.slots.startAhead();
    this.#pumpWhenDue();
  }

  async #send(exchange: Exchange): Promise<void> {
    const { store, system } = this.parts;
    const { ended, begun, request } = exchange;
    const requestedAt = system.monotonic();
    let claimed: Claimed | null = null;
    if (ended.length > 0) {
      const settlements = ended.map(({ settlement }) => settlement);
      const started = begun.map(({ id, epoch }) => ({ id, epoch }));
      const settled = await store.settle({ owner: this.id, settlements, started, next: request });
      this.#acknowledge(ended, settled.answers);
      claimed = settled.claimed;
    } else if (request) {
      claimed = await store.claim(request);
    }
    this.#patience.recovered();
    if (claimed && request) this.#receive(claimed, request, exchange, requestedAt);
  }

  /** What the store holds for us and we never heard of goes back. Endings are sent again: their claim makes it safe. */
  async #handBackUnknown(): Promise<void> {
    const held = await this.parts.store.readClaims(this.id);
    this.#unsure = false;
    const said = this.#unanswered().map(({ settlement }) => settlement); // whose lease may have run out while nobody answered
    for (const { epoch, ids } of held.filter((claim) => !this.claims.all.has(claim.epoch)))
      for (const id of ids)
        if (!said.some((one) => one.id === id && one.epoch === epoch)) this.giveBack(id, epoch, null);
  }

  #receive(claimed: Claimed, request: ClaimRequest, { number, hints }: Exchange, requestedAt: number): void {
    const { jobs, epoch, at, nextDueInMs, more } = claimed;
    if (number > this.#lastAnswered) {
      this.#lastAnswered = number;
      this.moreReady = more;
      // Asked only ahead, while a slot became free: what was refused ahead may have it.
      this.#aheadRefused = more && jobs.length === 0 && request.slots === 0 && this.freeSlots > 0;
      this.idle = hints === this.#hints && (!more || (jobs.length === 0 && !this.#aheadRefused));
    }
    if (nextDueInMs !== null && nextDueInMs < this.parts.settings.pollMs) this.#armPoll(nextDueInMs);
    if (jobs.length === 0) return;
    const trustUntil = requestedAt + request.leaseMs;
    const claim = new Claim(epoch, requestedAt, at, trustUntil);
    // An answer that comes after the stop, or after its own lease, starts nothing any more.
    const tooLate = this.isStopping || this.parts.system.monotonic() >= trustUntil;
    for (let index = 0; index < jobs.length; index++) {
      const run = this.slots.receive(jobs[index]!, claim);
      if (tooLate) this.giveBack(run.id, epoch, run);
      else if (index < request.slots) this.slots.start(run);
      else this.slots.wait(run);
    }
    if (this.slots.waiting > 0) this.#armPoll(aheadWaitMaxMs);
  }

  #acknowledge(ended: readonly Ended[], answers: readonly SettleAnswer[]): void {
    const { meters, system } = this.parts;
    for (let index = 0; index < ended.length; index++) {
      const { run, settlement } = ended[index]!;
      const { id, epoch, ending } = settlement;
      if (run) this.claims.forget(run);
      if (answers[index] === 'ok') {
        this.finished += ending.kind === 'release' ? 0 : 1;
        if (run && meters.isOn) measureSettled(meters, run, ending, system);
        if (run && ending.kind !== 'complete') tellFailure(this.parts.failures, run, ending);
      } else this.parts.logger.warn('Late result refused', { id, epoch, code: answers[index], ending: ending.kind });
    }
  }

  // ---- endings ------------------------------------------------------------------------------------------------

  settle(settlement: Settlement, run: Run | null): void {
    if (settlement.ending.kind !== 'release') this.ran += 1;
    this.#endings.push({ settlement, run });
    if (this.#endings.length === 1 || this.#isDue) this.#pumpWhenDue();
  }

  get #isDue(): boolean {
    return this.#maySend && (this.#endings.length >= batchMax || this.#wantsJobs);
  }

  /** Endings of one turn of the event loop travel together; a free slot asks for work at once. */
  #pumpWhenDue(): void {
    if (this.#isDue) this.schedulePump();
    else this.parts.system.soon(() => this.schedulePump());
  }

  giveBack(id: string, epoch: number, run: Run | null): void {
    if (this.isStopping) this.handedBack.add(id);
    this.settle({ id, epoch, ending: { kind: 'release' } }, run);
  }

  get stuck(): ReadonlySet<Run> {
    return this.slots.stuck;
  }

  get isFailing(): boolean {
    return this.#patience.isFailing;
  }

  // ---- stopping -----------------------------------------------------------------------------------------------

  get isDrained(): boolean {
    return this.slots.running === 0 && this.#endings.length === 0 && this.#underWay.size === 0 && !this.#unsure;
  }

  /** Calls back each time nothing is left to do; returns how to stop listening. */
  whenDrained(callback: () => void): () => void {
    this.#drained.add(callback);
    this.schedulePump();
    return () => this.#drained.delete(callback);
  }

  unsettled(): readonly string[] {
    return this.#unanswered().map(({ settlement }) => settlement.id);
  }

  /** Endings that were sent, or wait to be. */
  #unanswered(): readonly Ended[] {
    return [...[...this.#underWay].flatMap(({ ended }) => ended), ...this.#endings];
  }

  /** Nobody counts on this worker any more; a store that does not answer learns it when the card lapses. */
  leave(): Promise<void> {
    return this.#heart.leave().catch(() => undefined);
  }

  /** From here on nothing is sent: what is unsettled comes back when its claim lapses. */
  shutDown(): void {
    this.#shutDown = true;
    this.#callOffPoll();
    this.#patience.stop();
    for (const callOff of this.#callOffGraces) callOff();
    this.#heart.stop();
    this.slots.notebook.stop();
    this.#unsubscribe();
    this.#letGo();
  }
}
