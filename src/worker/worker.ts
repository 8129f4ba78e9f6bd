/**
 * A worker: slots → claim → run → settle. One exchange with the store is under way at a time; it carries the endings that
 * have gathered and asks for as many jobs as there are free slots (and, for short jobs, some ahead). Between exchanges
 * the worker is woken by a hint, by the next due job, or by the poll.
 */
import { isUnknown } from '../core/deadlines.js';
import type { TypeDetails } from '../core/definition.js';
import type { Ending } from '../core/ending.js';
import { LastoutError } from '../core/errors.js';
import type { Job, Logger } from '../core/job.js';
import type { Claimed, ClaimRequest, Hint, SettleAnswer, Settlement, Store, StoredJob } from '../core/store.js';
import type { System } from '../core/system.js';
import { aheadMeter } from './ahead.js';
import { type Claims, createClaims } from './claims.js';
import { createHeart, type Heart } from './heart.js';
import { createNotebook, type Notebook } from './notebook.js';
import type { WorkerSettings } from './options.js';
import { createPatience, type Patience } from './patience.js';
import { Run, type RunParts } from './run.js';
import { type StopReport, stopWorker } from './stop.js';

const settledMax = 500;
/** What was claimed ahead and has not begun by then goes back. */
const aheadWaitMaxMs = 100;
/** Exchanges with a store in this process are all microtasks: after this long, timers and I/O have their turn. */
const turnMaxMs = 10;

export interface WorkerParts {
  readonly store: Store;
  readonly system: System;
  readonly logger: Logger;
  readonly types: ReadonlyMap<string, TypeDetails>;
  readonly settings: WorkerSettings;
  toJob(stored: StoredJob): Job;
}

interface Ahead {
  readonly stored: StoredJob;
  readonly epoch: number;
  readonly since: number;
}

export class Worker {
  readonly id: string;
  readonly runs = new Map<string, Run>();
  /** Handlers whose claim is over but whose code still runs. */
  readonly stuck = new Set<Run>();
  readonly claims: Claims;
  readonly notebook: Notebook;
  readonly handedBack = new Set<string>();
  started = 0;
  finished = 0;
  #ahead: Ahead[] = [];
  #endings: Settlement[] = [];
  #exchanging = false;
  #pumpScheduled = false;
  #stopping = false;
  #stopped: Promise<StopReport> | null = null;
  /** The last claim found nothing to start: wait for a hint, a free slot or the poll. */
  #idle = false;
  /** A hint came while a claim was under way, which may have looked too early to see why. */
  #heard = false;
  /** The last claim said that more is ready. */
  moreReady = false;
  #pollAt = Number.POSITIVE_INFINITY;
  #callOffPoll: () => void = () => undefined;
  /** Sent and not answered yet. */
  #underWay: readonly Settlement[] = [];
  #shutDown = false;
  /** A claim may have been made whose answer never came. */
  #unsure = false;
  #yieldedAt = 0;
  /** Aborted when the grace of any stop is over: a later, shorter one counts. */
  readonly graceOver = new AbortController();
  readonly #callOffGraces: (() => void)[] = [];
  readonly #meter = aheadMeter();
  readonly #heart: Heart;
  readonly #patience: Patience;
  readonly #unsubscribe: () => void;
  readonly #drained = new Set<() => void>();

  constructor(readonly parts: WorkerParts) {
    this.id = parts.system.id();
    this.claims = createClaims();
    this.notebook = createNotebook(this);
    this.#heart = createHeart(this);
    this.#patience = createPatience(parts.system, parts.logger, () => this.#schedulePump());
    this.#unsubscribe = parts.store.subscribe((hint) => this.hear(hint));
    this.#armPoll(parts.settings.pollMs);
    this.#schedulePump();
  }

  get running(): readonly string[] {
    return [...this.runs.keys()];
  }

  stop(graceMs: number): Promise<StopReport> {
    this.#stopping = true;
    if (!this.#shutDown)
      this.#callOffGraces.push(this.parts.system.timer(graceMs, () => this.graceOver.abort(), 'hold'));
    this.#stopped ??= stopWorker(this);
    return this.#stopped;
  }

  // ---- claiming -----------------------------------------------------------------------------------------------

  hear(hint: Hint): void {
    if (
      hint.kind === 'ready' &&
      (hint.types.has('*') || [...this.parts.types.keys()].some((type) => hint.types.has(type)))
    ) {
      this.#idle = false;
      this.#heard = true;
      this.#schedulePump();
    } else if (hint.kind === 'later' && hint.inMs < this.parts.settings.pollMs) {
      this.#armPoll(hint.inMs);
    } else if (hint.kind === 'cancel') {
      this.#heart.beatNow();
    } else if (hint.kind === 'pause') {
      this.giveBackAhead();
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
      this.#idle = false;
      this.#giveBackWaiting();
      this.#schedulePump();
    });
  }

  #schedulePump(): void {
    if (this.#pumpScheduled) return;
    this.#pumpScheduled = true;
    queueMicrotask(() => this.#pump());
  }

  #pump(): void {
    this.#pumpScheduled = false;
    if (this.#shutDown) return;
    this.#startAhead();
    if (this.#exchanging || this.#patience.isWaiting) return;
    const request = this.#nextClaim();
    if (request || this.#endings.length > 0 || this.#unsure) void this.#exchange(request);
    else if (this.isDrained) for (const resolve of this.#drained) resolve();
  }

  #nextClaim(): ClaimRequest | null {
    if (this.#stopping || this.#idle) return null;
    const { concurrency, queues, leaseMs, maxStalls } = this.parts.settings;
    const target = this.#meter.target(concurrency);
    const slots = this.#ahead.length > 0 ? 0 : concurrency - this.runs.size;
    const ahead = this.#ahead.length > target / 2 ? 0 : target - this.#ahead.length;
    if (slots <= 0 && ahead <= 0) return null;
    return { owner: this.id, types: [...this.parts.types.keys()], queues, slots, ahead, leaseMs, maxStalls };
  }

  async #exchange(request: ClaimRequest | null): Promise<void> {
    const { store, system } = this.parts;
    const settlements = this.#endings.splice(0, settledMax);
    const started = settlements.length > 0 ? this.claims.takeBegun(settlements) : [];
    this.#underWay = settlements;
    this.#exchanging = true;
    this.#heard = false;
    try {
      if (this.#unsure) await this.#handBackUnknown();
      const requestedAt = system.monotonic();
      if (settlements.length > 0) {
        const { answers, claimed } = await store.settle({ owner: this.id, settlements, started, next: request });
        this.#patience.recovered();
        this.#acknowledge(settlements, answers);
        if (claimed && request) this.#receive(claimed, request, requestedAt);
      } else if (request) {
        const claimed = await store.claim(request);
        this.#patience.recovered();
        this.#receive(claimed, request, requestedAt);
      }
    } catch (error) {
      this.#endings.unshift(...settlements);
      for (const { id, epoch } of started) this.claims.begun(epoch, id);
      if (request && isUnknown(error)) this.#unsure = true;
      this.#patience.failed(error, this.#endings.length > 0);
    }
    this.#underWay = [];
    if (system.monotonic() - this.#yieldedAt >= turnMaxMs) {
      await new Promise<void>((resolve) => system.soon(resolve));
      this.#yieldedAt = system.monotonic();
    }
    this.#exchanging = false;
    this.#startAhead();
    this.#pumpWhenDue();
  }

  /** What the store holds for us and we never heard of goes back. Endings are sent again: their claim makes it safe. */
  async #handBackUnknown(): Promise<void> {
    const held = await this.parts.store.read({ log: 'claims', owner: this.id });
    this.#unsure = false;
    for (const { epoch, ids } of held) {
      if (!this.claims.all.has(epoch)) for (const id of ids) this.giveBack(id, epoch);
    }
  }

  #receive(claimed: Claimed, request: ClaimRequest, requestedAt: number): void {
    const { jobs, epoch, nextDueInMs, more } = claimed;
    this.moreReady = more;
    // Asked only ahead, while a slot became free: what was refused ahead may have it.
    const slotFreed = request.slots === 0 && this.runs.size < this.parts.settings.concurrency;
    this.#idle = !this.#heard && (!more || (jobs.length === 0 && !slotFreed));
    if (nextDueInMs !== null && nextDueInMs < this.parts.settings.pollMs) this.#armPoll(nextDueInMs);
    if (jobs.length === 0) return;
    const trustUntil = requestedAt + request.leaseMs;
    // Given out again, so an earlier claim of ours on it has lapsed, whether or not we have been told.
    for (const { id } of jobs) if (this.claims.holds(id) || this.runs.has(id)) this.lose(id, epoch - 1);
    this.claims.add(
      epoch,
      jobs.map((job) => job.id),
      trustUntil,
    );
    // An answer that comes after the stop, or after its own lease, starts nothing any more.
    const tooLate = this.#stopping || this.parts.system.monotonic() >= trustUntil;
    jobs.forEach((stored, index) => {
      if (tooLate) this.giveBack(stored.id, epoch);
      else if (index < request.slots) this.#start(stored, epoch);
      else this.#ahead.push({ stored, epoch, since: requestedAt });
    });
    if (this.#ahead.length > 0) this.#armPoll(aheadWaitMaxMs);
    this.#heart.start();
  }

  // ---- running ------------------------------------------------------------------------------------------------

  /** What was claimed ahead begins when a slot is free, while the claim can still be trusted and the ttl is not over. */
  #startAhead(): void {
    while (this.#ahead.length > 0 && this.runs.size < this.parts.settings.concurrency && !this.#stopping) {
      const { stored, epoch } = this.#ahead.shift()!;
      const expired = stored.expiresAt !== null && stored.expiresAt <= this.parts.system.now();
      if (!this.claims.isTrusted(epoch, this.parts.system.monotonic())) this.claims.forget(epoch, stored.id);
      else if (expired) this.giveBack(stored.id, epoch);
      else {
        this.claims.begun(epoch, stored.id);
        this.#start(stored, epoch);
      }
    }
  }

  #start(stored: StoredJob, epoch: number): void {
    const { system, types, toJob } = this.parts;
    const parts: RunParts = {
      system,
      toJob,
      details: types.get(stored.type)!,
      note: (run, entry) => this.notebook.write(run, entry),
      overdue: (run) => this.#overdue(run),
    };
    const run = new Run(stored, epoch, parts);
    this.started += 1;
    this.runs.set(run.id, run);
    void run.execute().then((ending) => this.#ended(run, ending));
  }

  async #ended(run: Run, ending: Ending): Promise<void> {
    this.#meter.ran(this.parts.system.monotonic() - run.startedAt);
    if (this.notebook.has(run)) await this.notebook.flush();
    this.stuck.delete(run);
    const { id, epoch } = run;
    if (run.over) return this.parts.logger.debug('Late result refused', { id, epoch, ending: ending.kind });
    this.runs.delete(id);
    run.over = true;
    if (this.moreReady) this.#idle = false;
    if (ending.kind === 'release') this.handedBack.add(id);
    // What was claimed ahead begins in this very turn, so that its ending travels with this one.
    this.#startAhead();
    this.#settle({ id, epoch, ending });
  }

  #settle(settlement: Settlement): void {
    this.#endings.push(settlement);
    if (this.#endings.length === 1 || this.#isDue) this.#pumpWhenDue();
  }

  get #isDue(): boolean {
    return this.#endings.length >= settledMax || this.#nextClaim() !== null;
  }

  /** Endings of one turn of the event loop travel together; a free slot asks for work at once. */
  #pumpWhenDue(): void {
    if (this.#isDue) this.#schedulePump();
    else this.parts.system.soon(() => this.#schedulePump());
  }

  giveBack(id: string, epoch: number): void {
    if (this.#stopping) this.handedBack.add(id);
    this.#settle({ id, epoch, ending: { kind: 'release' } });
  }

  #giveBackWaiting(): void {
    const oldest = this.#ahead[0];
    if (!oldest || this.parts.system.monotonic() - oldest.since < aheadWaitMaxMs) return;
    this.#meter.waitedTooLong();
    this.giveBackAhead();
  }

  giveBackAhead(): void {
    for (const { stored, epoch } of this.#ahead.splice(0)) this.giveBack(stored.id, epoch);
  }

  // ---- losing -------------------------------------------------------------------------------------------------

  /** The store says, or time says, that the job is no longer ours under this claim, let alone under an earlier one. */
  lose(id: string, upTo: number): void {
    this.#ahead = this.#ahead.filter(({ stored, epoch }) => stored.id !== id || epoch > upTo);
    const run = this.runs.get(id);
    if (run && run.epoch <= upTo)
      this.abandon(run, new LastoutError('STALE_CLAIM', `Job ${id} is no longer held by this worker`));
  }

  /** Somebody asked to cancel: the handler decides how it ends, what was only claimed ahead goes back at once. */
  requestCancel(id: string, reason: string): void {
    this.runs.get(id)?.abort(new LastoutError('CANCELLED', reason));
    const waiting = this.#ahead.find(({ stored }) => stored.id === id);
    if (!waiting) return;
    this.#ahead = this.#ahead.filter((entry) => entry !== waiting);
    this.giveBack(id, waiting.epoch);
  }

  /** Frees the slot of a handler whose claim is over; its code may still run and is shown as stuck until it returns. */
  abandon(run: Run, reason: LastoutError): void {
    run.abort(reason);
    run.over = true;
    this.runs.delete(run.id);
    this.stuck.add(run);
    this.notebook.drop(run);
    this.#schedulePump();
  }

  /** Two jobs of one key must never run at once, so an exclusive job keeps its claim while its code runs. */
  #overdue(run: Run): void {
    const { logger } = this.parts;
    const about = { id: run.id, type: run.stored.type, timeoutIgnoredForMs: 5_000 };
    if (run.over) return;
    if (run.exclusive) {
      this.stuck.add(run);
      logger.warn('Handler ignores its abort signal and holds its exclusive key', about);
      return;
    }
    logger.warn('Handler ignores its abort signal', about);
    const timedOut = new LastoutError('TIMEOUT', 'Timed out');
    const ending = run.endingOfThrown(timedOut);
    this.abandon(run, timedOut);
    this.#settle({ id: run.id, epoch: run.epoch, ending });
  }

  #acknowledge(settlements: readonly Settlement[], answers: readonly SettleAnswer[]): void {
    settlements.forEach(({ id, epoch, ending }, index) => {
      this.claims.forget(epoch, id);
      if (answers[index] === 'ok') this.finished += ending.kind === 'release' ? 0 : 1;
      else this.parts.logger.warn('Late result refused', { id, epoch, code: answers[index], ending: ending.kind });
    });
  }

  get isFailing(): boolean {
    return this.#patience.isFailing;
  }

  // ---- stopping -----------------------------------------------------------------------------------------------

  get isDrained(): boolean {
    return this.runs.size === 0 && this.#endings.length === 0 && !this.#exchanging && !this.#unsure;
  }

  /** Calls back each time nothing is left to do; returns how to stop listening. */
  whenDrained(callback: () => void): () => void {
    this.#drained.add(callback);
    this.#schedulePump();
    return () => this.#drained.delete(callback);
  }

  unsettled(): readonly string[] {
    return [...this.#underWay, ...this.#endings].map(({ id }) => id);
  }

  /** From here on nothing is sent: what is unsettled comes back when its claim lapses. */
  shutDown(): void {
    this.#shutDown = true;
    this.#callOffPoll();
    this.#patience.stop();
    for (const callOff of this.#callOffGraces) callOff();
    this.#heart.stop();
    this.notebook.stop();
    this.#unsubscribe();
  }
}
