/** Wires metrics, tracing and alerts to what they look at. */
import type { Facts } from './core/facts.js';
import type { JobEvent, Logger } from './core/job.js';
import type { CleanupPolicy } from './core/policy.js';
import type { Store } from './core/store.js';
import type { System } from './core/system.js';
import { describeThrown } from './core/thrown.js';
import type { Tracing } from './core/tracing.js';
import { ledgerOn } from './lifecycle/ledger.js';
import { type Alert, alertsOn } from './observe/alerts.js';
import type { MeterSwitch } from './observe/meter-switch.js';
import { loadPrometheus, metricsOn } from './observe/metrics.js';
import { functionNotifier, logNotifier, type Notifier, webhookNotifier } from './observe/notifiers.js';
import type { ObserveSettings, ReadNotify } from './observe/options.js';
import { tracingOn } from './observe/tracing.js';
import type { Lifecycle } from './open-lifecycle.js';
import { lookoutOn, standingOf } from './observe/sight.js';

export interface Observer {
  /** Counting begins, if that was asked for. */
  start(): Promise<void>;
  metrics(): Promise<string>;
  alerts(): Promise<readonly Alert[]>;
  stop(): Promise<void>;
}

interface Parts {
  readonly store: Store;
  readonly system: System;
  readonly logger: Logger;
  readonly cleanup: CleanupPolicy;
  readonly lifecycle: Pick<Lifecycle, 'sweeper' | 'orphansLeft' | 'failingSweeps'>;
  readonly leases: { readonly book: { readonly attention: Facts['leasesNeedingAttention'] } };
  readonly meters: MeterSwitch;
  /** Those who listen to events of this name. */
  tell(event: JobEvent): void;
}

/** What telemetry throws, it throws at every job: one line is enough. */
export function toldOnce(logger: () => Logger, message: string): (error: unknown) => void {
  let isTold = false;
  return (error) => {
    if (!isTold) logger().warn(message, { error: describeThrown(error).message });
    isTold = true;
  };
}

/** Before anything is opened: a package that is missing leaves nothing behind. */
export async function loadObserving(
  { metrics, tracing }: ObserveSettings,
  blame: (error: unknown) => void,
): Promise<Tracing | null> {
  if (metrics) await loadPrometheus();
  return tracing && tracingOn(tracing, blame);
}

export function observerOn(parts: Parts, settings: ObserveSettings): Observer {
  const { store, system, logger, cleanup, meters, tell } = parts;
  const sightParts = { store, system, cleanup, facts: factsOf(parts) };
  const lookout = lookoutOn(sightParts);
  const listeners = functionNotifier((alert) => tell(eventOf(alert, lookout.cursor)), logger);
  const notifiers = [listeners, ...settings.alerts.notify.map((notify) => notifierOf(notify, system, logger))];
  const alerts = alertsOn({ system, logger, lookout, notifiers }, settings.alerts);
  const metrics = metricsOn({
    system,
    meters,
    standing: () => standingOf(sightParts).catch(() => null),
    alerts: () => alerts.known,
  });
  return {
    start: async () => (settings.metrics ? metrics.start() : undefined),
    metrics: metrics.text,
    alerts: alerts.now,
    stop: alerts.stop,
  };
}

function factsOf({ store, lifecycle, leases }: Parts): Facts {
  return {
    passes: async (limit) => (await ledgerOn(store, undefined, limit)).items,
    brokenPasses: () => lifecycle.sweeper.failures,
    failingSweeps: () => [...lifecycle.failingSweeps],
    leasesNeedingAttention: leases.book.attention,
    orphans: async () => ({ count: await lifecycle.orphansLeft(), sample: [] }),
  };
}

function notifierOf(notify: ReadNotify, system: System, logger: Logger): Notifier {
  if (notify === 'log') return logNotifier(logger);
  if (typeof notify === 'function') return functionNotifier(notify, logger);
  return webhookNotifier(notify, system, logger);
}

/** An alert is what this process sees, so it is not in the log; who goes on after its cursor misses nothing of that. */
function eventOf({ id, rule, since, message }: Alert, cursor: string | null): JobEvent {
  return { cursor: cursor ?? '', at: since, name: 'alert', id, error: { code: rule, message } };
}
