/** One job under one claim: its handler, its signal, its time limit; and what its ending is called. */
import type { Context, TypeDetails } from '../core/definition.js';
import type { Ending } from '../core/ending.js';
import { LastoutError } from '../core/errors.js';
import type { Job, JobError, Progress } from '../core/job.js';
import { toStoredText } from '../core/json.js';
import { unreadableInput } from '../core/job-view.js';
import { Verdict } from '../core/outcome.js';
import { backoffMs, defaults, functionBackoffMs, policyOf, type StoredPolicy } from '../core/policy.js';
import type { Note, StoredJob } from '../core/store.js';
import type { System } from '../core/system.js';
import { describeReason, describeThrown, storable } from '../core/thrown.js';
import { readProgress } from './progress.js';

const lineBytesMax = 8 * 1024;

export interface RunParts {
  readonly system: System;
  readonly details: TypeDetails;
  toJob(stored: StoredJob): Job;
  /** Progress and log lines, to be written under the claim. */
  note(run: Run, note: { progress?: Progress; line?: Note['lines'][number] }): void;
  /** The time limit passed, and five seconds more, and the handler still runs. */
  overdue(run: Run): void;
}

export class Run {
  readonly id: string;
  readonly startedAt: number;
  /** The claim is over as far as this worker is concerned; what the handler still says is not sent. */
  over = false;
  #controller: AbortController | null = null;
  #stopReason: LastoutError | null = null;
  #callOffTimer: () => void = () => undefined;
  readonly #policy: StoredPolicy;

  constructor(
    readonly stored: StoredJob,
    readonly epoch: number,
    private readonly parts: RunParts,
  ) {
    this.id = stored.id;
    this.startedAt = parts.system.monotonic();
    this.#policy = policyOf(stored.policy);
  }

  get exclusive(): boolean {
    return this.stored.exclusiveKey !== null;
  }

  /** Runs the handler to its end, whatever that is. Never throws. */
  async execute(): Promise<Ending> {
    const lost = unreadableInput(this.stored.input);
    if (lost) return this.endingOfThrown(lost);
    this.#startTimeLimit();
    try {
      return this.#endingOfValue(await this.parts.details.run!(this.#context()));
    } catch (thrown) {
      return this.endingOfThrown(thrown);
    } finally {
      this.#callOffTimer();
    }
  }

  /** The first reason stands. */
  abort(reason: LastoutError): void {
    if (this.#stopReason) return;
    this.#stopReason = reason;
    this.#controller?.abort(reason);
  }

  endingOfThrown(thrown: unknown): Ending {
    const code = this.#stopReason?.code;
    if (code === 'CLOSED') return { kind: 'release' };
    const error =
      code === 'TIMEOUT'
        ? describeThrown(this.#stopReason)
        : describeThrown(isVerdict(thrown) ? misplaced(thrown) : thrown);
    const text = JSON.stringify(error);
    const { attempts, maxAttempts } = this.stored;
    return attempts < maxAttempts
      ? { kind: 'retry', inMs: this.#backoff(error), error: text }
      : { kind: 'exhaust', error: text };
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#stopReason) this.#controller.abort(this.#stopReason);
    }
    return this.#controller.signal;
  }

  #startTimeLimit(): void {
    const { timeoutMs } = this.#policy;
    if (timeoutMs === null) return;
    const { system } = this.parts;
    this.#callOffTimer = system.timer(timeoutMs, () => {
      this.abort(new LastoutError('TIMEOUT', `Timed out after ${timeoutMs} ms`));
      this.#callOffTimer = system.timer(defaults.abortGraceMs, () => this.parts.overdue(this));
    });
  }

  #endingOfValue(value: unknown): Ending {
    if (isVerdict(value)) return endingOfVerdict(value);
    try {
      return { kind: 'complete', result: value === undefined ? 'null' : toStoredText(value, 'result') };
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

  /** Job and signal are made when a handler asks for them: most never do. */
  #context(): Context<never> {
    let job: Job | undefined;
    const readJob = (): Job => (job ??= this.parts.toJob(this.stored));
    const readSignal = (): AbortSignal => this.signal;
    return {
      get input() {
        return readJob().input as never;
      },
      get job() {
        return readJob() as Job<never>;
      },
      get signal() {
        return readSignal();
      },
      progress: (value) => this.parts.note(this, { progress: readProgress(value) }),
      log: (message, fields) =>
        this.parts.note(this, {
          line: { message: storable(String(message), lineBytesMax), fields: fieldsText(fields) },
        }),
    };
  }
}

/** A Proxy may refuse even to be asked. */
function isVerdict(value: unknown): value is Verdict {
  try {
    return value instanceof Verdict;
  } catch {
    return false;
  }
}

function misplaced({ outcome }: Verdict): string {
  return `The handler threw ${outcome}(…); return it instead`;
}

function endingOfVerdict({ outcome, details }: Verdict): Ending {
  if (outcome === 'snooze') return { kind: 'snooze', when: { inMs: details.inMs ?? 0 } };
  const error = JSON.stringify(describeReason(details.error ?? { message: outcome }));
  return { kind: outcome, error };
}

/** A log line never fails its job: what cannot be stored is said to be so. */
function fieldsText(fields: object | undefined): string | null {
  if (fields === undefined) return null;
  try {
    return toStoredText(fields, 'fields', lineBytesMax);
  } catch (refused) {
    return JSON.stringify({ unstorable: describeThrown(refused).message });
  }
}
