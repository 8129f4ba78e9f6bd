/**
 * Alerts: what the rules find becomes pending, fires when it lasts, and is cleared when the value has come down far
 * enough. What cannot be seen changes nothing: a store that does not answer clears no alert but its own.
 */
import type { Logger } from '../core/job.js';
import type { System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import type { Notifier } from './notifiers.js';
import { type Finding, type Rule, type RuleName, rules, ruleNames, type Threshold } from './rules.js';
import { idsMax, type Lookout, type Sight } from './sight.js';

export interface Alert {
  /** The same for the same trouble, in every process: the rule, and the queue or the type where it is of one. */
  readonly id: string;
  readonly rule: string;
  readonly severity: 'warning' | 'critical';
  readonly state: 'pending' | 'firing' | 'cleared';
  /** When it came into this state. */
  readonly since: Date;
  /** The queue or the type, and some ids, at most eleven. */
  readonly evidence: readonly string[];
  readonly message: string;
}

export interface AlertSettings {
  /** Null: only when somebody asks. */
  readonly everyMs: number | null;
  /** Null: this rule is off. */
  readonly thresholds: { readonly [name in RuleName]: Threshold | null };
}

export interface Alerts {
  /** Looks, and tells the alerts that there are. */
  now(): Promise<readonly Alert[]>;
  /** As the last look left them. */
  readonly known: readonly Alert[];
  stop(): Promise<void>;
}

/** So long a cleared alert is still shown. */
const clearedForMs = 15 * 60_000;
/** Most alerts of one rule. */
const alertsMax = 100;
/**
 * So long a look waits for the store before that is an outage: each store lets its calls wait in its own way. One that
 * follows a look without an answer need not wait as long.
 */
const patienceMs = { first: 5_000, next: 1_000 } as const;

interface Moment {
  readonly at: Date;
  readonly monotonicMs: number;
}

interface Known {
  alert: Alert;
  /** When it came into this state, by the monotonic clock. */
  sinceMs: number;
}

interface Parts {
  readonly system: System;
  readonly logger: Logger;
  readonly lookout: Lookout;
  /** Told of each alert that fires or is cleared. */
  readonly notifiers: readonly Notifier[];
}

export function alertsOn({ system, logger, lookout, notifiers }: Parts, settings: AlertSettings): Alerts {
  const known = new Map<string, Known>();
  let looking: Promise<void> | null = null;
  /** When the first look began that got no answer, if none has got one since. */
  let silentSince: Moment | null = null;
  let callOff: () => void = () => undefined;
  let stopped = false;

  const blindAfterMs = settings.thresholds.storeUnreachable?.pendingMs ?? Number.POSITIVE_INFINITY;
  /** How long the store still may be silent. */
  const silentForMs = (since: Moment): number => since.monotonicMs + blindAfterMs - system.monotonic();

  function unjudged(error: unknown): void {
    logger.error('The alerts could not be judged; it is tried again', { error: describeThrown(error).message });
  }

  async function evaluate(): Promise<void> {
    const began: Moment = { at: new Date(system.now()), monotonicMs: system.monotonic() };
    const waitMs = silentSince
      ? Math.max(patienceMs.next, silentForMs(silentSince))
      : Math.max(patienceMs.first, blindAfterMs);
    // A look may take longer than the silence that is an alert.
    const giveUp = (): void => {
      silentSince ??= began;
      judgeAll(lookout.blind('a look at it has got no answer yet.')).catch(unjudged);
    };
    const callOffWait = waitMs === Number.POSITIVE_INFINITY ? () => undefined : system.timer(waitMs, giveUp);
    const sight = await lookout.look();
    callOffWait();
    silentSince = sight.trouble === null ? null : (silentSince ?? began);
    await judgeAll(sight);
  }

  async function judgeAll(sight: Sight): Promise<void> {
    for (const name of ruleNames) {
      const rule: Rule = rules[name];
      const threshold = settings.thresholds[name];
      if (!threshold || (sight.trouble !== null && !rule.blind)) continue;
      const findings = new Map(rule.look(sight, threshold.above).map((finding) => [idOf(name, finding), finding]));
      for (const [id, finding] of findings) await judge(id, name, threshold, finding);
      // A queue that is gone has no trouble any more.
      for (const [id, { alert }] of known) if (alert.rule === name && !findings.has(id)) end(id);
    }
    for (const [id, { alert, sinceMs }] of known)
      if (alert.state === 'cleared' && system.monotonic() - sinceMs >= clearedForMs) known.delete(id);
  }

  async function judge(id: string, rule: RuleName, threshold: Threshold, finding: Finding): Promise<void> {
    const isBad = finding.value > threshold.above;
    let one = known.get(id);
    if (isBad && (!one || one.alert.state === 'cleared')) {
      if (!one && [...known.values()].filter(({ alert }) => alert.rule === rule).length >= alertsMax) return;
      one = enter(id, rule, finding, 'pending', (rules[rule] as Rule).blind && silentSince);
    }
    if (!one || one.alert.state === 'cleared') return;
    if (one.alert.state === 'pending') {
      if (!isBad) known.delete(id);
      else if (system.monotonic() - one.sinceMs >= threshold.pendingMs) await fire(id, rule, finding, threshold);
    } else if (finding.value <= threshold.clear) end(id);
    else one.alert = { ...one.alert, message: finding.message };
  }

  function enter(
    id: string,
    name: RuleName,
    { queue, type, evidence, message }: Finding,
    state: Alert['state'],
    from?: Moment | null,
  ): Known {
    const shown = [...[queue ?? type].filter((name) => name !== undefined), ...evidence.slice(0, idsMax)];
    const since = from?.at ?? new Date(system.now());
    const alert: Alert = { id, rule: name, severity: rules[name].severity, state, since, evidence: shown, message };
    const one = { alert, sinceMs: from?.monotonicMs ?? system.monotonic() };
    known.set(id, one);
    return one;
  }

  async function fire(id: string, name: RuleName, finding: Finding, { above }: Threshold): Promise<void> {
    const rule: Rule = rules[name];
    let { evidence } = finding;
    try {
      evidence = (await rule.sample?.(lookout.asks, finding, above)) ?? evidence;
    } catch (error) {
      logger.debug('An alert is told without ids', { id, error: describeThrown(error).message });
    }
    tell(enter(id, name, { ...finding, evidence }, 'firing').alert);
  }

  function end(id: string): void {
    const { alert } = known.get(id)!;
    if (alert.state === 'pending') known.delete(id);
    if (alert.state !== 'firing') return;
    const cleared: Alert = {
      ...alert,
      state: 'cleared',
      since: new Date(system.now()),
      message: `No longer: ${alert.message}`,
    };
    known.set(id, { alert: cleared, sinceMs: system.monotonic() });
    tell(cleared);
  }

  function tell(alert: Alert): void {
    for (const notifier of notifiers) notifier.tell(alert);
  }

  /** Never two at once: who asks meanwhile gets what is being found out. */
  function look(): Promise<void> {
    looking ??= evaluate().finally(() => {
      looking = null;
    });
    return looking;
  }

  /** While the store is silent, not later than when that becomes an alert. */
  function lookLater(everyMs: number): void {
    const leftMs = silentSince ? silentForMs(silentSince) : 0;
    const inMs = leftMs > 0 ? Math.min(everyMs, Math.max(patienceMs.next, leftMs)) : everyMs;
    callOff = system.timer(inMs, () => {
      void look()
        .catch(unjudged)
        .then(() => {
          if (!stopped) lookLater(everyMs);
        });
    });
  }

  if (settings.everyMs !== null) lookLater(settings.everyMs);
  const list = (): readonly Alert[] => [...known.values()].map(({ alert }) => alert);
  return {
    async now() {
      await look();
      return list();
    },
    get known() {
      return list();
    },
    async stop() {
      stopped = true;
      callOff();
      await looking?.catch(() => undefined);
      await Promise.all(notifiers.map((notifier) => notifier.stop()));
    },
  };
}

function idOf(rule: RuleName, { queue, type }: Finding): string {
  const about = queue ?? type;
  return about === undefined ? rule : `${rule}:${about}`;
}
