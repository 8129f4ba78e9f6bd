/** Which jobs this worker holds under which claim, and how long it may trust it by its own monotonic clock. */
import type { StoredJob } from '../core/store.js';
import type { Run } from './run.js';

/** One claim call, as long as a job of it is neither settled nor lost. */
export class Claim {
  held = 0;
  readonly runs: Run[] = [];

  constructor(
    readonly epoch: number,
    /** By our monotonic clock. */
    readonly requestedAt: number,
    /** The store's instant of the claim. */
    readonly at: number,
    /** From the moment the claim or its extension was asked for: a reply may be slow, the lease is not. */
    public trustUntil: number,
  ) {}

  /** What the store's clock shows now, or a moment later than that. */
  storeTime(now: number): number {
    return this.at + (now - this.requestedAt);
  }

  get ids(): string[] {
    return this.runs.filter((run) => run.held).map((run) => run.id);
  }
}

export class Claims {
  readonly all = new Map<number, Claim>();
  /** A job is held under its newest claim only: who is given it again forgets the earlier one first. */
  readonly #bySeq = new Map<number, Run>();
  #begun: Run[] = [];

  add(run: Run): void {
    const { claim } = run;
    if (claim.held === 0) this.all.set(claim.epoch, claim);
    claim.held += 1;
    claim.runs.push(run);
    this.#bySeq.set(run.stored.seq, run);
  }

  /** The job is settled or lost; a claim without jobs is forgotten. */
  forget(run: Run): void {
    if (!run.held) return;
    run.held = false;
    this.#bySeq.delete(run.stored.seq);
    run.claim.held -= 1;
    if (run.claim.held === 0) this.all.delete(run.claim.epoch);
  }

  of({ seq }: StoredJob): Run | undefined {
    return this.#bySeq.get(seq);
  }

  /** Looks at all of them: only cancelling asks by id. */
  find(id: string): Run | undefined {
    for (const run of this.#bySeq.values()) if (run.id === id) return run;
    return undefined;
  }

  get running(): Run[] {
    return [...this.#bySeq.values()].filter((run) => run.isRunning);
  }

  /** A job that was claimed ahead has begun; the store learns it with the next call. */
  begun(run: Run): void {
    this.#begun.push(run);
  }

  /** Those that have ended are left out: an ending says as much. */
  takeBegun(): Run[] {
    const begun = this.#begun.filter((run) => run.isRunning);
    this.#begun = [];
    return begun;
  }
}
