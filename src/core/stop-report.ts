/** What became of the jobs of workers that were stopped. */
export interface StopReport {
  readonly finished: number;
  readonly handedBack: readonly string[];
  /** Still held: an exclusive key whose code still runs, or a store that did not answer. They come back when the claim lapses. */
  readonly abandoned: readonly string[];
  /** What its own attempts have leased and what still lives. The queue goes on ending it; of one that was closed, another process does. */
  readonly leases: readonly string[];
}

/** What a worker knows of itself. */
export type WorkerReport = Omit<StopReport, 'leases'>;
