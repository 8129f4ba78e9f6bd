/** What one pass of the cleanup did: returned to the caller, logged, and kept in the ledger. */
export interface SweepReport {
  readonly at: Date;
  readonly by: string;
  readonly examined: number;
  /** Jobs. */
  readonly removed: number;
  /**
   * Jobs by `age`, `count` and `cap`; beside them, where there were any, `thing`s (artifacts and temporary folders) that went
   * with their jobs or were due, `file`s that nobody owned, and `orphan`s: pending jobs that were cancelled because their
   * subject is gone.
   */
  readonly removedBy: { readonly [kind: string]: number };
  readonly failures: number;
  readonly durationMs: number;
}

/** Undefined: not readable here, because it was written by a newer version. */
export function readReport(entry: string): SweepReport | undefined {
  try {
    const report = JSON.parse(entry) as Omit<SweepReport, 'at'> & { at: string };
    return { ...report, at: new Date(report.at) };
  } catch {
    return undefined;
  }
}
