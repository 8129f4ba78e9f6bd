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

/**
 * `wait`: from due to begun. `job`: the run of a handler. `lifetime`: from created to ended. `cleanup_lag`: from due to go
 * to gone, of the oldest job that a pass of the cleanup removed.
 */
export type TimerName = 'job' | 'wait' | 'lifetime' | 'cleanup' | 'cleanup_lag' | 'lease_end';

export type MeterLabels = { readonly [label: string]: string };

export interface Meters {
  /** False: nobody listens, and what costs something to find out need not be told. */
  readonly isOn?: boolean;
  /** `n` more of it; the labels are few and bounded: a kind, a queue, a type, an outcome. */
  add(name: MeterName, n: number, labels?: MeterLabels): void;
  /** How long something took. */
  took(name: TimerName, ms: number, labels?: MeterLabels): void;
}

export const noMeters: Meters = { isOn: false, add() {}, took() {} };
