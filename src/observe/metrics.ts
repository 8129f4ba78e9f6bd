/**
 * Metrics as Prometheus text. What the store knows is read at each scrape; what happens is counted in this process, from
 * the option `metrics` or the first scrape on. Each queue has a registry of its own.
 */
import type * as Prometheus from 'prom-client';
import { systemQueue } from '../core/names.js';
import type { MeterLabels, MeterName, Meters, TimerName } from '../core/meters.js';
import type { Card, QueueTally } from '../core/store.js';
import type { System } from '../core/system.js';
import type { Alert } from './alerts.js';
import type { MeterSwitch } from './meter-switch.js';
import { counters, gauges, timers } from './metric-table.js';
import { loadPeer } from './peer.js';
import type { Standing } from './sight.js';

type Client = typeof Prometheus;

/** Most sets of labels of one metric; those that come later are counted together as `other`. */
export const labelSetsMax = 200;
const other = 'other';
const hourMs = 3_600_000;

export interface Metrics {
  /** From here on what happens is counted. */
  start(): Promise<void>;
  text(): Promise<string>;
}

interface Parts {
  readonly system: System;
  readonly meters: MeterSwitch;
  /** Null: the store does not answer. */
  standing(): Promise<Standing | null>;
  alerts(): readonly Alert[];
}

export function loadPrometheus(load: () => Promise<Client> = () => import('prom-client')): Promise<Client> {
  return loadPeer('prom-client', 'metrics', load);
}

export function metricsOn(parts: Parts): Metrics {
  const { system, meters, standing, alerts } = parts;
  let begun: Promise<ReturnType<typeof book>> | null = null;

  function begin(): Promise<ReturnType<typeof book>> {
    begun ??= loadPrometheus().then(
      (client) => {
        const made = book(client, system);
        meters.turnOn(made.meters);
        return made;
      },
      (error: unknown) => {
        begun = null; // it may be installed by the next call
        throw error;
      },
    );
    return begun;
  }

  return {
    async start() {
      await begin();
    },
    async text() {
      const made = await begin();
      made.show(await standing(), alerts());
      return made.registry.metrics();
    },
  };
}

/** All metrics of one queue. */
function book(client: Client, system: System) {
  const registry = new client.Registry();
  const registers = [registry];
  const counted = mapOf(counters, ({ name, help, labels }) => {
    return new client.Counter({ name, help, labelNames: labels, registers });
  });
  const timed = mapOf(timers, ({ name, help, labels, buckets }) => {
    return new client.Histogram({ name, help, labelNames: labels, buckets: [...buckets], registers });
  });
  const shown = mapOf(gauges, (gauge: { name: string; help: string; labels?: readonly string[] }) => {
    return new client.Gauge({ name: gauge.name, help: gauge.help, labelNames: gauge.labels ?? [], registers });
  });
  const seen = orphanNumbers(system);
  const meters = countInto(counted, timed, seen);
  return {
    registry,
    meters,
    show(standing: Standing | null, alerts: readonly Alert[]): void {
      for (const gauge of Object.values(shown)) gauge.reset();
      shown.storeUp.set(standing ? 1 : 0);
      if (standing) showStanding(shown, standing);
      else clearWithoutStore(shown);
      showAlerts(shown.alerts, alerts);
      const four = seen.numbers();
      for (const name of fourNames) shown[name].set(four[name]);
    },
  };
}

type Shown = { readonly [name in keyof typeof gauges]: Prometheus.Gauge };

function mapOf<K extends string, V, T>(table: { readonly [key in K]: V }, make: (value: V) => T): { [key in K]: T } {
  const made = {} as { [key in K]: T };
  for (const key of Object.keys(table) as K[]) made[key] = make(table[key]);
  return made;
}

function countInto(
  counted: { readonly [name in MeterName]: Prometheus.Counter },
  timed: { readonly [name in TimerName]: Prometheus.Histogram },
  seen: ReturnType<typeof orphanNumbers>,
): Meters {
  const boundOf = {
    ...mapOf(counters, ({ labels }) => boundedLabels(labels)),
    ...mapOf(timers, ({ labels }) => boundedLabels(labels)),
  };
  return {
    isOn: true,
    add(name, n, labels) {
      counted[name].inc(boundOf[name](labels), n);
      seen.added(name, n);
    },
    took(name, ms, labels) {
      const tookMs = Math.max(0, ms);
      timed[name].observe(boundOf[name](labels), tookMs / 1_000);
      if (name === 'lifetime') seen.lived(tookMs);
    },
  };
}

/** A metric has its own labels, all of them, and not too many values: who scrapes keeps each set for ever. */
function boundedLabels(names: readonly string[]): (given?: MeterLabels) => { [name: string]: string } {
  const sets = new Set<string>();
  const rest = Object.fromEntries(names.map((name) => [name, other]));
  return (given = {}) => {
    const labels = Object.fromEntries(names.map((name) => [name, given[name] ?? '']));
    const key = Object.values(labels).join('\n');
    if (sets.has(key)) return labels;
    if (sets.size >= labelSetsMax) return rest;
    sets.add(key);
    return labels;
  };
}

const fourNames = ['totalOrphanedJobs', 'cleanupFrequency', 'avgJobLifetime', 'failedCleanups'] as const;

/** The four numbers that a system with orphaned jobs is judged by. */
function orphanNumbers(system: System) {
  let [orphans, failed, ended, livedMs] = [0, 0, 0, 0];
  let sweeps: number[] = [];
  return {
    added(name: MeterName, n: number): void {
      if (name === 'orphans_cancelled') orphans += n;
      if (name === 'orphan_sweep_failures' || name === 'orphan_sweeps_braked') failed += n;
      if (name === 'orphan_sweeps') sweeps = [...lastHour(), system.monotonic()];
    },
    lived(ms: number): void {
      ended += 1;
      livedMs += ms;
    },
    numbers(): { readonly [name in (typeof fourNames)[number]]: number } {
      sweeps = lastHour();
      const avgJobLifetime = ended === 0 ? 0 : livedMs / ended;
      return { totalOrphanedJobs: orphans, cleanupFrequency: sweeps.length, avgJobLifetime, failedCleanups: failed };
    },
  };

  function lastHour(): number[] {
    const now = system.monotonic();
    return sweeps.filter((at) => now - at < hourMs).slice(-3_600);
  }
}

function showStanding(shown: Shown, { queues, overdue, workers, passes, leases, orphans }: Standing): void {
  const ofUsers = queues.filter(({ queue }) => queue !== systemQueue);
  ofUsers.forEach((queue, index) => showQueue(shown, queue, index < labelSetsMax));
  const stalled = queues.reduce((sum, queue) => sum + queue.stalled, 0);
  shown.workers.set(workers.filter(({ card }) => card.concurrency > 0 && !isOurs(card)).length);
  shown.overdue.set(overdue);
  shown.orphans.set(orphans.count);
  shown.leases.set(leases.count);
  shown.leftBehind.set(orphans.count + stalled + overdue + leases.count);
  if (passes[0]) shown.lastCleanup.set(passes[0].at.getTime() / 1_000);
  else shown.lastCleanup.remove();
}

/** A worker that ends leases is the library's own. */
function isOurs({ queues }: Card): boolean {
  return queues !== null && queues.every((queue) => queue === systemQueue);
}

/** The counts of queues that have no label of their own are added up. */
function showQueue(shown: Shown, tally: QueueTally, isNamed: boolean): void {
  const queue = isNamed ? tally.queue : other;
  const { pending, delayed, processing, completed, replaced, cancelled, expired } = tally;
  const failed = tally.failed - replaced;
  const states = { waiting: pending - delayed, delayed, processing, completed, failed, replaced, cancelled, expired };
  for (const [state, n] of Object.entries(states)) shown.jobs.inc({ queue, state }, n);
  shown.stalled.inc({ queue }, tally.stalled);
  if (!isNamed) return;
  shown.oldestDue.set({ queue }, (tally.oldestDueAgeMs ?? 0) / 1_000);
  shown.paused.set({ queue }, tally.paused ? 1 : 0);
  shown.full.set({ queue }, tally.full ? 1 : 0);
}

/** A number that nobody knows is not shown as 0. */
function clearWithoutStore(shown: Shown): void {
  for (const name of ['workers', 'overdue', 'orphans', 'leases', 'leftBehind', 'lastCleanup'] as const)
    shown[name].remove();
}

function showAlerts(gauge: Prometheus.Gauge, alerts: readonly Alert[]): void {
  for (const { rule, severity, state } of alerts) if (state === 'firing') gauge.inc({ rule, severity });
}
