/**
 * The callers of a system that removes many finished jobs: one adds jobs, another one waits for jobs to start. Both go on in
 * the same way before it, which is what idle means here.
 */
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Cleaner } from './contender.js';
import { quantileOf } from './quantile.js';

/** Milliseconds by the clock that was given, which need not count what other programs took. */
export interface Stretch {
  readonly enqueues: number;
  readonly enqueueP50: number;
  readonly enqueueP99: number;
  /** From the moment at which a job was to be added until it was accepted: a process that stands still shows. */
  readonly longestPause: number;
  /** The same by the clock on the wall. */
  readonly longestOnTheWall: number;
  /** How many were longer than what is allowed. */
  readonly longPauses: number;
  readonly claims: number;
  readonly claimP50: number;
  readonly claimP99: number;
  readonly longestClaim: number;
}

export interface Cleaning {
  readonly removed: number;
  readonly seconds: number;
  readonly idle: Stretch;
  readonly during: Stretch;
}

export const pauseMaxMs = 20;
export const warmUpMs = 1_500;
const everyMs = 2;

interface Samples {
  readonly enqueues: number[];
  readonly pauses: number[];
  readonly onTheWall: number[];
  readonly claims: number[];
}

export async function measureCleaning(system: Cleaner, seconds: number, clock: () => number): Promise<Cleaning> {
  const hearing = { started: (): void => undefined };
  const working = await system.work(1, () => hearing.started());
  const log: Log = { clock, samples: nothing(), over: false };
  const callers = Promise.all([adding(system, log), waiting(system, log, hearing)]);
  callers.catch(() => undefined); // it is heard of by whoever awaits it next
  const stretch = async (work: () => Promise<unknown>): Promise<Stretch> => {
    const own = (log.samples = nothing());
    await Promise.race([work(), callers]);
    // What is under way was begun here: it may have waited for all of the work.
    const { enqueues, claims } = own;
    const [enqueuesSoFar, claimsSoFar] = [enqueues.length, claims.length];
    while (enqueues.length === enqueuesSoFar || claims.length === claimsSoFar) await Promise.race([sleep(1), callers]);
    return stretchOf(own);
  };
  await stretch(() => sleep(warmUpMs));
  const idle = await stretch(() => sleep(seconds * 1_000));
  await system.due?.();
  let removed = 0;
  const beganAt = performance.now();
  let took = 0;
  const during = await stretch(async () => {
    removed = await system.clean();
    took = (performance.now() - beganAt) / 1_000;
  });
  log.over = true;
  await callers;
  await working.stop();
  return { removed, seconds: took, idle, during };
}

/** Where the callers write. A sample belongs to the stretch in which it ends. */
interface Log {
  readonly clock: () => number;
  samples: Samples;
  over: boolean;
}

/** A job every two milliseconds, of those that nobody takes. */
async function adding(system: Cleaner, log: Log): Promise<void> {
  const { clock } = log;
  while (!log.over) {
    const [dueAt, dueOnTheWall] = [clock() + everyMs, performance.now() + everyMs];
    await sleep(everyMs);
    const calledAt = clock();
    await system.addAside();
    const doneAt = clock();
    log.samples.enqueues.push(doneAt - calledAt);
    log.samples.pauses.push(Math.max(0, doneAt - dueAt));
    log.samples.onTheWall.push(performance.now() - dueOnTheWall);
  }
}

/** One job after the other, at moments that no rhythm is in step with: from the call of add to the start of its handler. */
async function waiting(system: Cleaner, log: Log, hearing: { started: () => void }): Promise<void> {
  const { clock } = log;
  while (!log.over) {
    await sleep(1 + Math.random() * 5);
    const starting = new Promise<number>((resolve) => (hearing.started = () => resolve(clock())));
    const calledAt = clock();
    const added = system.add();
    log.samples.claims.push((await starting) - calledAt);
    await added;
  }
}

function nothing(): Samples {
  return { enqueues: [], pauses: [], onTheWall: [], claims: [] };
}

function stretchOf({ enqueues, pauses, onTheWall, claims }: Samples): Stretch {
  return {
    enqueues: enqueues.length,
    enqueueP50: quantileOf(enqueues, 0.5),
    enqueueP99: quantileOf(enqueues, 0.99),
    longestPause: quantileOf(pauses, 1),
    longestOnTheWall: quantileOf(onTheWall, 1),
    longPauses: pauses.filter((ms) => ms > pauseMaxMs).length,
    claims: claims.length,
    claimP50: quantileOf(claims, 0.5),
    claimP99: quantileOf(claims, 0.99),
    longestClaim: quantileOf(claims, 1),
  };
}
