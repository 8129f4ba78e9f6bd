/** The names, words and labels of all metrics: docs/metrics.md is held against this table. */
import type { MeterName, TimerName } from '../core/meters.js';

interface Described {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
}

const job = ['queue', 'type'] as const;

/** What this process has counted since it began to. */
export const counters: { readonly [name in MeterName]: Described } = {
  settlements: {
    name: 'lastout_attempts_total',
    help: 'Attempts of this process that the store has settled, by how they ended.',
    labels: [...job, 'outcome'],
  },
  refusals: { name: 'lastout_refusals_total', help: 'Refused enqueues, by code.', labels: ['code'] },
  cleanup_passes: { name: 'lastout_cleanup_passes_total', help: 'Passes of the cleanup.', labels: [] },
  cleanup_removed: {
    name: 'lastout_cleanup_removed_total',
    help: 'What the cleanup removed, by the rule that took it or by its kind.',
    labels: ['kind'],
  },
  cleanup_failures: {
    name: 'lastout_cleanup_failures_total',
    help: 'Things that could not be ended, and passes that broke off.',
    labels: [],
  },
  orphans_found: {
    name: 'lastout_orphans_found_total',
    help: 'Subjects that sweeps confirmed to be absent, or over.',
    labels: ['kind'],
  },
  orphans_cancelled: {
    name: 'lastout_orphans_cancelled_total',
    help: 'Jobs that were cancelled because their subject is gone or over.',
    labels: ['kind'],
  },
  orphan_sweeps: { name: 'lastout_orphan_sweeps_total', help: 'Sweeps for orphans.', labels: ['kind'] },
  orphan_sweep_failures: {
    name: 'lastout_orphan_sweep_failures_total',
    help: 'Checks and cancellations that failed in sweeps for orphans.',
    labels: ['kind'],
  },
  orphan_sweeps_braked: {
    name: 'lastout_orphan_sweeps_braked_total',
    help: 'Sweeps for orphans that stopped because they would have condemned too much.',
    labels: ['kind'],
  },
  leases_taken: { name: 'lastout_leases_taken_total', help: 'Leases taken.', labels: ['kind'] },
  leases_ended: { name: 'lastout_leases_ended_total', help: 'Leases whose resource is gone.', labels: ['kind'] },
  lease_end_failures: {
    name: 'lastout_lease_end_failures_total',
    help: 'Tries to destroy a resource that failed.',
    labels: ['kind'],
  },
  leases_reconciled: {
    name: 'lastout_leases_reconciled_total',
    help: 'Resources and leases that were found without the other, and ended.',
    labels: ['kind'],
  },
};

interface Timed extends Described {
  /** Upper ends, in seconds. */
  readonly buckets: readonly number[];
}

const short = [0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900];
const long = [1, 10, 60, 300, 900, 3_600, 7_200, 21_600, 86_400, 604_800];

export const timers: { readonly [name in TimerName]: Timed } = {
  job: {
    name: 'lastout_job_duration_seconds',
    help: 'How long handlers ran.',
    labels: [...job, 'outcome'],
    buckets: short,
  },
  wait: {
    name: 'lastout_job_wait_seconds',
    help: 'How long jobs waited from due to begun.',
    labels: job,
    buckets: short,
  },
  lifetime: {
    name: 'lastout_job_lifetime_seconds',
    help: 'From created to ended, of jobs that ended in this process.',
    labels: job,
    buckets: long,
  },
  cleanup: {
    name: 'lastout_cleanup_duration_seconds',
    help: 'How long passes of the cleanup took.',
    labels: [],
    buckets: short,
  },
  cleanup_lag: {
    name: 'lastout_cleanup_lag_seconds',
    help: 'From due to go to gone, of the oldest job that a pass of the cleanup removed for its age.',
    labels: [],
    buckets: long,
  },
  lease_end: {
    name: 'lastout_lease_end_duration_seconds',
    help: 'How long it took to destroy a resource.',
    labels: ['kind'],
    buckets: short,
  },
};

/** What the store says when it is asked, for all processes. */
export const gauges = {
  storeUp: { name: 'lastout_store_up', help: '1: the store answered. 0: the other numbers of the store are missing.' },
  jobs: {
    name: 'lastout_jobs',
    help: 'Stored jobs. Waiting ones are due and delayed ones are not; together they are the pending ones. Replaced ones are not among the failed ones.',
    labels: ['queue', 'state'],
  },
  stalled: {
    name: 'lastout_stalled_jobs',
    help: 'The part of the processing jobs whose claim has lapsed.',
    labels: ['queue'],
  },
  oldestDue: {
    name: 'lastout_oldest_due_age_seconds',
    help: 'How long the oldest due job has waited.',
    labels: ['queue'],
  },
  paused: { name: 'lastout_queue_paused', help: '1: the queue is paused.', labels: ['queue'] },
  full: { name: 'lastout_queue_full', help: '1: the queue refuses jobs.', labels: ['queue'] },
  workers: { name: 'lastout_workers', help: 'Living workers.' },
  leftBehind: { name: 'lastout_left_behind', help: 'What should be gone and is not; its good value is 0.' },
  overdue: {
    name: 'lastout_overdue_jobs',
    help: 'Finished jobs that are past their retention by more than one cleanup interval.',
  },
  orphans: {
    name: 'lastout_orphans',
    help: 'Subjects that were confirmed absent, or are over, and still have pending jobs.',
  },
  leases: {
    name: 'lastout_leases_needing_attention',
    help: 'Leases whose resource could not be destroyed.',
  },
  lastCleanup: {
    name: 'lastout_last_cleanup_timestamp_seconds',
    help: 'When a pass of the cleanup was last entered in the ledger, by any process.',
  },
  alerts: { name: 'lastout_alerts_firing', help: 'Alerts that fire.', labels: ['rule', 'severity'] },
  totalOrphanedJobs: {
    name: 'totalOrphanedJobs',
    help: 'Jobs that this process cancelled because their subject is gone or over.',
  },
  cleanupFrequency: { name: 'cleanupFrequency', help: 'Sweeps for orphans of this process in the last hour.' },
  avgJobLifetime: {
    name: 'avgJobLifetime',
    help: 'Milliseconds from created to ended, on average, of jobs that ended in this process.',
  },
  failedCleanups: {
    name: 'failedCleanups',
    help: 'Failures in sweeps for orphans of this process, and sweeps that stopped.',
  },
} as const satisfies { readonly [name: string]: Omit<Described, 'labels'> & { labels?: readonly string[] } };
