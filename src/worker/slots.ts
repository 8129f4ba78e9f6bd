/** The handlers' side of a worker: what waits for a slot, what runs, and how it leaves. */
import type { Ending } from '../core/ending.js';
import { LastoutError } from '../core/errors.js';
import type { StoredJob } from '../core/store.js';
import { AheadLine, aheadMeter, aheadWaitMaxMs, type AheadMeter } from './ahead.js';
import type { Claim } from './claims.js';
import { measureBegun, measureRan } from './measure.js';
import { createNotebook, type Notebook } from './notebook.js';
import { Run, type RunParts } from './run.js';
import type { Worker } from './worker.js';

export class Slots {
  /** Handlers whose claim is over but whose code still runs. */
  readonly stuck = new Set<Run>();
  readonly notebook: Notebook;
  started = 0;
  running = 0;
  readonly #ahead = new AheadLine();
  readonly #meter: AheadMeter;
  readonly #partsOf = new Map<string, RunParts>();

  constructor(private readonly worker: Worker) {
    const { system, logger, toJob, types, settings, tracing } = worker.parts;
    const { belongingsOf, boundLeasesOf, reach, askSubject } = worker.parts;
    const owner = worker.id;
    const { leaseMs } = settings;
    this.notebook = createNotebook(worker);
    this.#meter = aheadMeter(settings.concurrency);
    const note: RunParts['note'] = (run, entry) => this.notebook.write(run, entry);
    const overdue: RunParts['overdue'] = (run) => this.#overdue(run);
    for (const [name, details] of types)
      this.#partsOf.set(name, {
        ...{ system, logger, toJob, details, belongingsOf, boundLeasesOf, reach, askSubject, tracing },
        ...{ owner, leaseMs, note, overdue },
      });
  }

  /** How many jobs wait for a slot, and how many may. */
  get waiting(): number {
    return this.#ahead.length;
  }
  get aheadTarget(): number {
    return this.#meter.target;
  }

  receive(stored: StoredJob, claim: Claim): Run {
    // Given out again, so an earlier claim of ours on it has lapsed, whether or not we have been told.
    const earlier = this.worker.claims.of(stored);
    if (earlier) this.loseHeld(earlier);
    const run = new Run(stored, claim, this.#partsOf.get(stored.type)!);
    this.worker.claims.add(run);
    return run;
  }

  wait(run: Run): void {
    this.#ahead.push(run);
  }

  /** What was claimed ahead begins when a slot is free, while the claim can still be trusted and the ttl is not over. */
  startAhead(): void {
    while (this.#ahead.length > 0 && this.worker.freeSlots > 0 && !this.worker.isStopping) {
      const run = this.#ahead.shift()!;
      const { claim } = run;
      const { expiresAt } = run.stored;
      const now = this.worker.parts.system.monotonic();
      if (now >= claim.trustUntil) this.worker.claims.forget(run);
      else if (expiresAt !== null && expiresAt <= claim.storeTime(now)) this.worker.giveBack(run.id, run.epoch, run);
      else {
        this.worker.claims.begun(run);
        this.start(run);
      }
    }
  }

  start(run: Run): void {
    this.started += 1;
    this.running += 1;
    run.isRunning = true;
    this.worker.parts.system.inTurn(() => this.#begin(run));
  }

  #begin(run: Run): void {
    if (run.over) return void this.stuck.delete(run); // lost before its turn came
    const { meters, system } = this.worker.parts;
    if (this.#meter.wants()) run.startedAt = system.monotonic();
    if (meters.isOn) {
      run.measuredAt = system.monotonic();
      measureBegun(meters, run, run.measuredAt);
    }
    void this.#execute(run);
  }

  async #execute(run: Run): Promise<void> {
    let ending: Ending;
    try {
      ending = run.endingOfValue(await run.call());
    } catch (thrown) {
      ending = run.endingOfThrown(thrown);
    }
    if (run.startedAt !== null) this.#meter.ran(this.worker.parts.system.monotonic() - run.startedAt);
    if (run.measuredAt !== null) this.#measure(run, run.measuredAt, ending);
    const written = this.notebook.written(run);
    if (written) await written;
    const ended = run.endBelongings();
    if (ended) await ended;
    this.#ended(run, ending);
  }

  #measure(run: Run, measuredAt: number, ending: Ending): void {
    const { meters, system } = this.worker.parts;
    measureRan(meters, run, ending, system.monotonic() - measuredAt);
  }

  #ended(run: Run, ending: Ending): void {
    const { id, epoch } = run;
    this.stuck.delete(run);
    if (run.over) return this.worker.parts.logger.debug('Late result refused', { id, epoch, ending: ending.kind });
    this.#leave(run);
    if (this.worker.moreReady) this.worker.idle = false;
    if (ending.kind === 'release') this.worker.handedBack.add(id);
    // What was claimed ahead begins in this very turn, so that its ending travels with this one.
    this.startAhead();
    this.worker.settle({ id, epoch, ending }, run);
  }

  /** Frees the slot. */
  #leave(run: Run): void {
    run.over = true;
    run.isRunning = false;
    this.running -= 1;
  }

  giveBackWaiting(): void {
    const { first } = this.#ahead;
    if (!first || this.worker.parts.system.monotonic() - first.claim.requestedAt < aheadWaitMaxMs) return;
    this.#meter.waitedTooLong();
    this.giveBackAhead();
  }

  giveBackAhead(): void {
    for (const run of this.#ahead.takeAll()) this.worker.giveBack(run.id, run.epoch, run);
  }

  /** The store says, or time says, that the job is no longer ours under this claim. */
  loseHeld(run: Run): void {
    this.lose(run);
    this.worker.claims.forget(run);
  }

  lose(run: Run): void {
    this.#ahead.remove(run);
    if (run.isRunning)
      this.abandon(run, new LastoutError('STALE_CLAIM', `Job ${run.id} is no longer held by this worker`));
  }

  /** Somebody asked to cancel: the handler decides how it ends, what was only claimed ahead goes back at once. */
  requestCancel(id: string, reason: string): void {
    const run = this.worker.claims.find(id);
    if (!run) return;
    if (run.isRunning) run.abort(new LastoutError('CANCELLED', reason));
    else if (this.#ahead.remove(run)) this.worker.giveBack(id, run.epoch, run);
  }

  /** Frees the slot of a handler whose claim is over; its code may still run and is shown as stuck until it returns. */
  abandon(run: Run, reason: LastoutError): void {
    run.abort(reason);
    void run.endLeases();
    this.#leave(run);
    this.stuck.add(run);
    this.notebook.drop(run);
    this.worker.schedulePump();
  }

  /** Two jobs of one key must never run at once, so an exclusive job keeps its claim while its code runs. */
  #overdue(run: Run): void {
    const { logger } = this.worker.parts;
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
    this.worker.settle({ id: run.id, epoch: run.epoch, ending }, run);
  }
}
