/**
 * One pass of the cleanup, under a term: the store removes what its rules remove, part by part; what stands in the way is
 * ended between the parts; at the end the ledger gets one entry, and the term is over. A pass that breaks off anywhere is
 * taken up by the next one.
 */
import { isUnknown } from '../core/deadlines.js';
import type { Logger } from '../core/job.js';
import type { Meters } from '../core/meters.js';
import type { CleanupPolicy } from '../core/policy.js';
import type { Store, Swept } from '../core/store.js';
import { pause, type System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import type { OrphanSweeper } from './orphan-sweeper.js';
import type { SweepReport } from './report.js';
import { createSlice } from './slice.js';
import type { Ended, Things } from './things.js';

/** Whoever cleans up and is not heard of for so long is taken for dead. */
export const termMs = 30_000;
const lookAgainMs = 100;
const quickLooks = 20;
const idleMax = 100;

export interface PassParts {
  readonly store: Store;
  readonly system: System;
  readonly logger: Logger;
  readonly cleanup: CleanupPolicy;
  readonly things: Things;
  readonly meters: Meters;
  readonly orphans: Pick<OrphanSweeper, 'take' | 'putBack'>;
  /** The name of this sweeper. */
  readonly by: string;
}

export interface HowToPass {
  /** Another one may be at it: come back when it has ended, for somebody asked for this pass; or leave it to it. */
  readonly busy: 'wait' | 'leave';
  /** Look also for files that lost their records. */
  readonly orphans: boolean;
  /** Of passes that broke off since the last report. */
  readonly failuresBefore: number;
  readonly signal: AbortSignal;
}

/** Null: another process cleans up. */
export async function passOnce(parts: PassParts, how: HowToPass): Promise<SweepReport | null> {
  const { system } = parts;
  const began = system.monotonic();
  const removedBy = { age: 0, count: 0, cap: 0 };
  const sums: Sums = { examined: 0, failures: how.failuresBefore, removedBy, idle: 0, seen: new Map() };
  const isOurs = await removeAll(parts, how, sums, began + 2 * termMs).finally(() => parts.things.putBack());
  // Files may be this machine's alone: who has no term looks after its own all the same.
  if (how.orphans && !how.signal.aborted) {
    const { done, failures } = await endOrphans(parts);
    addThings(sums, 'file', done);
    sums.failures += failures;
  }
  if (!isOurs) return null;
  const orphans = parts.orphans.take();
  addThings(sums, 'orphan', orphans.cancelled);
  const { age = 0, count = 0, cap = 0 } = sums.removedBy;
  const report: SweepReport = {
    at: new Date(system.now()),
    by: parts.by,
    examined: sums.examined + orphans.examined,
    removed: age + count + cap,
    removedBy: sums.removedBy,
    failures: sums.failures + orphans.failures,
    durationMs: Math.round(system.monotonic() - began),
  };
  if (!(await close(parts, report))) parts.orphans.putBack(orphans);
  return report;
}

interface Sums {
  examined: number;
  failures: number;
  removedBy: { [kind: string]: number };
  /** Parts in a row that changed nothing one can see: holds that ended, jobs that became due. */
  idle: number;
  /** How often an id stood in the way. */
  readonly seen: Map<string, number>;
}

/** Each has three turns: a pass ends, whatever the store and the things say. */
function inTheWay({ seen }: Sums, ids: readonly string[]): readonly string[] {
  for (const id of ids) seen.set(id, (seen.get(id) ?? 0) + 1);
  return ids.filter((id) => seen.get(id)! <= 3);
}

/** What is no job is only told where there was some. */
function addThings({ removedBy }: Sums, kind: string, n: number): void {
  if (n > 0) removedBy[kind] = (removedBy[kind] ?? 0) + n;
}

/** Its failure is its own: what the store removed is removed. */
async function endOrphans({ things, logger }: PassParts): Promise<Ended> {
  try {
    return await things.endOrphans();
  } catch (error) {
    logger.error('Cleanup failed; it is tried again', { error: describeThrown(error).message });
    return { done: 0, things: 0, postponed: 0, failures: 1 };
  }
}

async function removeAll(parts: PassParts, how: HowToPass, sums: Sums, patientUntil: number): Promise<boolean> {
  const { store, system, cleanup, by } = parts;
  const slice = createSlice(system, store.traits.leastSweep, how.signal);
  let looks = 0;
  while (!how.signal.aborted) {
    const part = await slice.measure((limit) => store.sweepInTerm({ holder: by, ttlMs: termMs }, { limit, cleanup }));
    if (part.term === null) {
      if (how.busy === 'leave' || system.monotonic() >= patientUntil) return false;
      looks += 1;
      // Most passes are short.
      if (looks > quickLooks) await pause(system, lookAgainMs, how.signal);
      else await nextTurn(system);
      continue;
    }
    if (!(await countPart(parts, how, sums, part))) return true;
    await slice.rest();
  }
  return true;
}

function nextTurn(system: System): Promise<void> {
  return new Promise((resolve) => system.soon(resolve));
}

/** True: go on. Too many parts that do nothing end the pass, whatever they say. */
async function countPart({ things }: PassParts, how: HowToPass, sums: Sums, part: Swept): Promise<boolean> {
  sums.examined += part.examined;
  let moved = part.lapsed + part.expired + part.fenced;
  for (const [kind, n] of Object.entries(part.removedBy)) {
    sums.removedBy[kind] = (sums.removedBy[kind] ?? 0) + n;
    moved += n;
  }
  const isAsked = how.busy === 'wait';
  let cleared = 0;
  const owing = inTheWay(sums, part.owing);
  if (owing.length > 0) {
    const freed = await things.free(owing, isAsked);
    addThings(sums, 'thing', freed.things);
    sums.failures += freed.failures;
    cleared += freed.done + freed.postponed;
  }
  const dueThings = inTheWay(sums, part.dueThings);
  if (dueThings.length > 0) {
    const due = await things.endDue(dueThings, isAsked);
    addThings(sums, 'thing', due.things);
    sums.failures += due.failures;
    cleared += due.done + due.postponed;
  }
  sums.idle = moved + cleared > 0 ? 0 : sums.idle + 1;
  return cleared > 0 || (part.more && sums.idle < idleMax);
}

/** Also of a pass that was called off: others need not wait for its term to lapse. Whether the ledger has it. */
async function close({ store, logger, by }: PassParts, report: SweepReport): Promise<boolean> {
  const entry = JSON.stringify(report);
  const send = (): Promise<number | null> => store.endTerm(by, entry);
  try {
    // A term has one entry at most, so an answer that was lost may be asked for again.
    await send().catch((error: unknown) => (isUnknown(error) ? send() : Promise.reject(error as Error)));
    return true;
  } catch (error) {
    logger.warn('The ledger could not be written', { error: describeThrown(error).message });
    return false;
  }
}
