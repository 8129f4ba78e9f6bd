/** What the library counts as it happens. Nobody counts unless metrics are asked for. */
export type MeterName =
  | 'leases_taken'
  | 'leases_ended'
  | 'lease_end_failures'
  | 'leases_reconciled'
  | 'orphans_found'
  | 'orphans_cancelled'
  | 'orphan_sweeps'
  | 'orphan_sweep_failures'
  | 'orphan_sweeps_braked'
  | 'cleanup_passes'
  | 'cleanup_removed'
  | 'cleanup_failures'
  | 'refusals'
  | 'settlements';

export interface Meters {
  /** `n` more of it; the labels are few and bounded: a kind, a queue, a type, an outcome. */
  add(name: MeterName, n: number, labels?: { readonly [label: string]: string }): void;
  /** How long something took. */
  took(name: 'job' | 'wait' | 'cleanup' | 'lease_end', ms: number, labels?: { readonly [label: string]: string }): void;
}

export const noMeters: Meters = { add() {}, took() {} };
