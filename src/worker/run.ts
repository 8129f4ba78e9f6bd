/** One job under one claim: its handler, its signal, its time limit; and what its ending is called. */
import type { TypeDetails } from '../core/definition.js';
import type { Ending } from '../core/ending.js';
import { LastoutError } from '../core/errors.js';
import { harmlessSignal } from '../core/harmless.js';
import type { Enqueued, Job, JobError, JobOptions, Logger, Progress } from '../core/job.js';
import { toStoredText } from '../core/json.js';
import { inputOf, unreadableInput } from '../core/job-view.js';
import { isOf } from '../core/reading.js';
import { isVerdict, Verdict } from '../core/outcome.js';
import type { Asker, Belongings, BelongingsOf, BoundLeases, BoundLeasesOf, Reach } from '../core/owned.js';
import { backoffMs, defaults, functionBackoffMs, policyOf, type StoredPolicy } from '../core/policy.js';
import type { Note, StoredJob } from '../core/store.js';
import { type AskSubject, orphanReason } from '../core/subject.js';
import type { System } from '../core/system.js';
import type { Tracing } from '../core/tracing.js';
import { describeReason, describeThrown } from '../core/thrown.js';
import type { Claim } from './claims.js';
import { contextOf } from './context.js';

export interface Entry {
  readonly progress?: Progress;
  /** Made only where it is kept. */
  readonly line?: () => Note['lines'][number];
}

/** What the runs of one type have in common. */
export interface RunParts {
  readonly system: System;
  readonly logger: Logger;
  readonly details: TypeDetails;
  readonly belongingsOf: BelongingsOf;
  readonly boundLeasesOf: BoundLeasesOf;
  readonly reach: Reach;
  readonly tracing: Tracing | null;
  readonly askSubject: AskSubject;
  /** Of the claims of this worker. */
  readonly owner: string;
  readonly leaseMs: number;
  toJob(stored: StoredJob, input: unknown): Job;
  /** Progress and log lines, to be written under the claim. */
  note(run: Run, entry: Entry): void;
  /** The time limit passed, and five seconds more, and the handler still runs. */
  overdue(run: Run): void;
}

export class Run {
  readonly id: string;
  /** Its claim counts on it: it is neither settled nor lost. */
  held = true;
  /** It has begun, and the claim is not over as far as this worker is concerned. */
  isRunning = false;
  /** What the handler still says is not sent. */
  over = false;
  /** By the monotonic clock; null: it is not measured. */
  startedAt: number | null = null;
  /** The same, for those who count; null: nobody does. */
  measuredAt: number | null = null;
  /** Log lines that it has written. */
  lines = 0;
  #controller: AbortController | null = null;
  #stopReason: LastoutError | null = null;
  #callOffTimer: (() => void) | null = null;
  #input: unknown;
  #job: Job | null = null;
  #belongings: Belongings | null = null;
  #leases: BoundLeases | null = null;

  constructor(
    readonly stored: StoredJob,
    readonly claim: Claim,
    private readonly parts: RunParts,
  ) {
    this.id = stored.id;
  }

  get epoch(): number {
    return this.claim.epoch;
  }

  /** Somebody asked to cancel it, and it was told. */
  get isCancelled(): boolean {
    return this.#stopReason?.code === 'CANCELLED';
  }

  get exclusive(): boolean {
    return this.stored.exclusiveKey !== null;
  }

  /** Calls the handler. What it returns or throws is to be told to `endingOfValue` or `endingOfThrown`. */
  call(): unknown {
    const lost = this.parts.details.ignoresInput ? null : unreadableInput(this.stored.input);
    if (lost) throw lost;
    const { timeoutMs } = this.#policy;
    if (timeoutMs !== null) this.#startTimeLimit(timeoutMs);
    const { tracing } = this.parts;
    return tracing ? tracing.process(this.stored, () => this.#start()) : this.#start();
  }

  #start(): unknown {
    return this.parts.details.checkSubject ? this.#callIfPresent() : this.#begin();
  }

  #begin(): unknown {
    return this.parts.details.run!(contextOf(this));
  }

  /** A job whose subject is known to be gone or over ends without having begun; who does not know lets it run. */
  async #callIfPresent(): Promise<unknown> {
    const { subject } = this.stored;
    // A job from before its type asked for one.
    if (subject === null) return this.#begin();
    const presence = await this.parts.askSubject(subject, this.signal);
    this.signal.throwIfAborted();
    if (presence === 'present' || presence === 'unknown') return this.#begin();
    return new Verdict('cancel', { error: { code: 'ORPHANED', message: orphanReason(subject, presence) } });
  }

  get input(): unknown {
    if (this.#input === undefined) this.#input = inputOf(this.stored);
    return this.#input;
  }

  get job(): Job {
    this.#job ??= this.parts.toJob(this.stored, this.input);
    return this.#job;
  }

  /** Made when the handler first asks for one. */
  get belongings(): Belongings {
    this.#belongings ??= this.parts.belongingsOf(this.#asker);
    return this.#belongings;
  }

  get leases(): BoundLeases {
    this.#leases ??= this.parts.boundLeasesOf(this.#asker);
    return this.#leases;
  }

  get queue(): Reach['queue'] {
    return this.parts.reach.queue;
  }

  enqueue(type: unknown, input: unknown, options?: JobOptions): Promise<Enqueued> {
    const { id, epoch } = this;
    return this.parts.reach.enqueue({ id, epoch, owner: this.parts.owner }, type, input, options);
  }

  get #asker(): Asker {
    const { owner, leaseMs } = this.parts;
    const { id, epoch, signal } = this;
    const abort = (reason: LastoutError): void => this.abort(reason);
    return { id, epoch, owner, signal, subject: this.stored.subject, leaseMs, abort };
  }

  /** The claim was extended. */
  beat(): void {
    void this.#leases?.beat();
  }

  /** The attempt is over, though the handler's code may still run. Null: it took no lease. */
  endLeases(): Promise<void> | null {
    return this.#leases && this.#leases.end();
  }

  /** The handler has ended. Null: it asked for nothing. */
  endBelongings(): Promise<unknown> | null {
    if (!this.#leases) return this.#belongings && this.#belongings.end();
    return Promise.all([this.endLeases(), this.#belongings?.end()]);
  }

  note(entry: Entry): void {
    this.parts.note(this, entry);
  }

  get #policy(): StoredPolicy {
    return policyOf(this.stored.policy);
  }

  /** The first reason stands. */
  abort(reason: LastoutError): void {
    if (this.#stopReason) return;
    this.#stopReason = reason;
    this.#controller?.abort(reason);
  }

  /** Whatever the handler throws is an ending. */
  endingOfThrown(thrown: unknown): Ending {
    this.#callOffTimer?.();
    const code = this.#stopReason?.code;
    if (code === 'CLOSED') return { kind: 'release' };
    const error =
      code === 'TIMEOUT'
        ? describeThrown(this.#stopReason)
        : describeThrown(isVerdict(thrown) ? misplaced(thrown) : thrown);
    const text = JSON.stringify(error);
    const { attempts, maxAttempts } = this.stored;
    return attempts < maxAttempts && !isHopeless(thrown)
      ? { kind: 'retry', inMs: this.#backoff(error), error: text }
      : { kind: 'exhaust', error: text };
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      harmlessSignal(this.#controller.signal, (error) => this.#blame(error));
      if (this.#stopReason) this.#controller.abort(this.#stopReason);
    }
    return this.#controller.signal;
  }

  #blame(thrown: unknown): void {
    const { id, stored, parts } = this;
    parts.logger.error('An abort listener threw', { id, type: stored.type, error: describeThrown(thrown).message });
  }

  #startTimeLimit(timeoutMs: number): void {
    const { system } = this.parts;
    this.#callOffTimer = system.timer(timeoutMs, () => {
      this.abort(new LastoutError('TIMEOUT', `Timed out after ${timeoutMs} ms`));
      this.#callOffTimer = system.timer(defaults.abortGraceMs, () => this.parts.overdue(this));
    });
  }

  endingOfValue(value: unknown): Ending {
    this.#callOffTimer?.();
    // A new one each time: a codec remembers what it has made of an ending.
    if (value === undefined) return { kind: 'complete', result: 'null' };
    if (isVerdict(value)) return endingOfVerdict(value);
    try {
      return { kind: 'complete', result: toStoredText(value, 'result') };
    } catch (refused) {
      const { message } = describeThrown(refused);
      return {
        kind: 'exhaust',
        error: JSON.stringify({
          code: 'RESULT_INVALID',
          message: `The handler finished, but its result cannot be stored: ${message}`,
        }),
      };
    }
  }

  #backoff(error: JobError): number {
    const { attempts } = this.stored;
    const own = this.parts.details.backoff;
    if (this.#policy.backoff === null && own) {
      try {
        return functionBackoffMs(own as Parameters<typeof functionBackoffMs>[0], attempts, error);
      } catch {
        // A broken backoff function must not break the failure path.
      }
    }
    return backoffMs(this.#policy.backoff ?? defaults.backoff, attempts, this.parts.system.random());
  }
}

/** The next attempt would meet the same: nothing but another `open` mends it. */
function isHopeless(thrown: unknown): boolean {
  return isOf(thrown, LastoutError) && thrown.code === 'ARTIFACTS_MISSING';
}

function misplaced({ outcome }: Verdict): string {
  return `The handler threw ${outcome}(…); return it instead`;
}

function endingOfVerdict({ outcome, details }: Verdict): Ending {
  if (outcome === 'snooze') return { kind: 'snooze', when: { inMs: details.inMs ?? 0 } };
  const error = JSON.stringify(describeReason(details.error ?? { message: outcome }));
  return { kind: outcome, error };
}
