/**
 * How many jobs of a queue may start now. What runs is counted from the living claims, never kept as a number, so that a
 * crash leaks no slot. What started is kept for one window of the rate, in a bounded number of parts.
 */
import type { QueueLimits } from '../../core/limits.js';
import type { Hint, QueueTally } from '../../core/store.js';
import type { Step } from './step.js';
import type { ClaimRecord, Row, Starts, Tables, Transact } from './tables.js';

/** A start may count for up to this part of a window longer than it must: the price of a bounded record. */
const partsPerWindow = 50;

export interface Allowance {
  /** Infinity: no limit on what runs. */
  readonly slots: number;
  readonly rate: QueueLimits['rate'];
  /** The starts that still count, oldest first. */
  readonly starts: readonly Starts[];
  /** The clock was set back, or is right again: what that makes of the starts is to be written down. */
  readonly clockSet: boolean;
}

/** Of the queues in question, those whose starts are limited. */
export function allowancesOf(
  tables: Pick<Tables, 'limits' | 'running' | 'starts'>,
  now: number,
  queues: readonly string[] | null,
): Map<string, Allowance> {
  const allowances = new Map<string, Allowance>();
  const asked = [...tables.limits()].filter(([queue]) => queues === null || queues.includes(queue));
  const capped = asked.filter(([, { concurrency }]) => concurrency !== null).map(([queue]) => queue);
  const running = capped.length === 0 ? undefined : tables.running(capped);
  for (const [queue, { concurrency, rate }] of asked) {
    if (concurrency === null && rate === null) continue;
    const slots = concurrency === null ? Number.POSITIVE_INFINITY : concurrency - (running?.get(queue) ?? 0);
    const kept = rate === null ? [] : tables.starts(queue);
    const seen = kept.map((part) => seenAt(now, part));
    const starts = seen.filter((part) => rate !== null && countsFrom(part) + rate.perMs > now);
    allowances.set(queue, { slots, rate, starts, clockSet: seen.some((part, n) => part !== kept[n]) });
  }
  return allowances;
}

/** Starts are in the future after the clock was set back. Their instants are kept, for when it is right again. */
function seenAt(now: number, part: Starts): Starts {
  const aheadAt = part.at > now ? Math.min(part.aheadAt ?? now, now) : null;
  return aheadAt === part.aheadAt ? part : { ...part, aheadAt };
}

/** A start in the future counts from when it was first seen there, so that it is waited for no longer than a window. */
function countsFrom({ at, aheadAt }: Starts): number {
  return aheadAt ?? at;
}

function mayStart({ slots, rate, starts }: Allowance): number {
  return Math.max(0, Math.min(slots, rate === null ? Number.POSITIVE_INFINITY : rate.max - sum(starts)));
}

/** How many jobs of a queue a claim may take; a queue without an entry has no limit, a paused one no room. */
export function roomIn(paused: ReadonlySet<string>, allowances: ReadonlyMap<string, Allowance>): Map<string, number> {
  const room = new Map([...allowances].map(([queue, allowance]) => [queue, mayStart(allowance)]));
  for (const queue of paused) room.set(queue, 0);
  return room;
}

/** When the rate lets a job start again; null: it does now. */
function opensAt({ rate, starts }: Allowance): number | null {
  if (rate === null) return null;
  let counting = sum(starts);
  let at: number | null = null;
  for (const oldest of starts.toSorted((a, b) => countsFrom(a) - countsFrom(b))) {
    if (counting < rate.max) break;
    counting -= oldest.n;
    at = countsFrom(oldest) + rate.perMs;
  }
  return at;
}

/** The first instant at which a queue that its rate holds back may go on. */
export function firstOpening(allowances: ReadonlyMap<string, Allowance>): number | null {
  return [...allowances.values()].map(opensAt).reduce(earlier, null);
}

/** Null is no instant. */
export function earlier(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b;
  return Math.min(a, b);
}

/** Writes down what a claim starts; what is left is read from the answer. */
export function chargeStarts(
  step: Step,
  allowances: ReadonlyMap<string, Allowance>,
  taken: readonly Row[],
): ReadonlyMap<string, Allowance> {
  const charged = new Map(allowances);
  if (charged.size === 0) return charged;
  const started = new Map<string, number>();
  for (const { queue } of taken) started.set(queue, (started.get(queue) ?? 0) + 1);
  for (const [queue, allowance] of allowances) {
    const n = started.get(queue) ?? 0;
    if (allowance.rate === null || (n === 0 && !allowance.clockSet)) continue;
    const starts = n === 0 ? allowance.starts : withStarts(allowance.starts, step.now, n, allowance.rate);
    step.tables.setStarts(queue, starts);
    charged.set(queue, { ...allowance, starts });
  }
  return charged;
}

/** Dated by its last start, a part never counts too short; a rate of few starts needs no parts. */
function withStarts(
  starts: readonly Starts[],
  now: number,
  n: number,
  { max, perMs }: { max: number; perMs: number },
): Starts[] {
  const past = starts.filter(({ at }) => at <= now);
  const ahead = starts.filter(({ at }) => at > now);
  const last = past.at(-1);
  const partMs = max <= partsPerWindow ? 0 : perMs / partsPerWindow;
  if (!last || now - last.from > partMs) return [...past, { from: now, at: now, n, aheadAt: null }, ...ahead];
  return [...past.slice(0, -1), { from: last.from, at: now, n: last.n + n, aheadAt: null }, ...ahead];
}

function sum(starts: readonly Starts[]): number {
  return starts.reduce((total, { n }) => total + n, 0);
}

/** Whether this step gave a slot back that it did not take again, in a queue where others may wait for one. */
export function freesSlot({ tables, deltas }: Step): boolean {
  const limits = tables.limits();
  if (limits.size === 0) return false;
  return [...deltas.values()].some(
    ({ queue, freed }) => freed > 0 && typeof limits.get(queue)?.concurrency === 'number',
  );
}

/** Why no job of a queue starts now. A lapsed claim holds no slot any more: the next claim brings it back first. */
export function blockOf(
  paused: boolean,
  allowance: Allowance | undefined,
  stalled: number,
): Pick<QueueTally, 'blockedBy' | 'blockedUntil'> {
  if (paused) return { blockedBy: 'paused', blockedUntil: null };
  if (allowance && allowance.slots + stalled <= 0) return { blockedBy: 'concurrency', blockedUntil: null };
  const until = allowance ? opensAt(allowance) : null;
  return { blockedBy: until === null ? null : 'rate', blockedUntil: until };
}

/** Limits hold for every process from the moment one of them is opened with them. Who changes nothing writes nothing. */
export async function keepLimits(
  engine: { readonly transact: Transact; readonly reading: Transact; readonly listeners: Set<(hint: Hint) => void> },
  limits: ReadonlyMap<string, QueueLimits> = new Map(),
): Promise<void> {
  if (limits.size === 0) return;
  if ((await engine.reading((tables) => changedLimits(tables, limits))).length === 0) return;
  await engine.transact((tables) => {
    for (const [queue, wanted] of changedLimits(tables, limits)) tables.setLimits(queue, wanted);
  });
  for (const listener of engine.listeners) listener({ kind: 'ready', types: new Set(['*']) });
}

function changedLimits(
  tables: Pick<Tables, 'limits'>,
  limits: ReadonlyMap<string, QueueLimits>,
): [string, QueueLimits][] {
  const kept = tables.limits();
  return [...limits].filter(([queue, wanted]) => !isSame(kept.get(queue) ?? unlimited, wanted));
}

const unlimited: QueueLimits = { maxPending: null, concurrency: null, rate: null };

export function isUnlimited(limits: QueueLimits): boolean {
  return isSame(limits, unlimited);
}

function isSame(a: QueueLimits, b: QueueLimits): boolean {
  return (
    a.maxPending === b.maxPending &&
    a.concurrency === b.concurrency &&
    a.rate?.max === b.rate?.max &&
    a.rate?.perMs === b.rate?.perMs
  );
}

/** Jobs of these queues that living records hold. */
export function runningIn(
  records: Iterable<ClaimRecord>,
  liveAt: (seq: number) => Row | undefined,
  queues: readonly string[],
): ReadonlyMap<string, number> {
  const running = new Map<string, number>();
  for (const record of records) {
    if (!record.queues.some((queue) => queues.includes(queue))) continue;
    for (const seq of record.seqs) {
      const row = liveAt(seq);
      if (row && row.epoch < record.epoch) running.set(row.queue, (running.get(row.queue) ?? 0) + 1);
    }
  }
  return running;
}
