/** What each side of a race does, over and over, until the race is over. */
import assert from 'node:assert/strict';
import type { Ending } from '../../../src/core/ending.js';
import type { SqlClient } from '../../../src/core/job.js';
import {
  type Inserted,
  type Move,
  type NewJob,
  noFilter,
  type SettleAnswer,
  type Store,
} from '../../../src/core/store.js';
import { newJob } from '../sqlite-support.js';
import type { Ledger } from './ledger.js';

export interface World {
  readonly ledger: Ledger;
  /** Ids that callers choose, and choose again. */
  readonly given: readonly string[];
  isOver(): boolean;
}

/** A connection of a caller, for transactions of its own. */
export interface Caller {
  readonly tx: SqlClient;
  /** The ways to begin one. */
  readonly begins: readonly string[];
  run(statement: string): Promise<unknown>;
}

const types = ['a', 'b'];
const queues = ['q', 'r'];
const leaseMs = 250;
const ttlMaxMs = 430;
/** After so long without an act every claim has lapsed, every ttl is over and every delay too. */
export const quietMs = Math.max(leaseMs, ttlMaxMs) + 50;
export const request = { types, queues: null, leaseMs, maxStalls: 2 } as const;

const below = (n: number): number => Math.floor(Math.random() * n);
const pick = <T>(list: readonly T[]): T => list[below(list.length)]!;
const oneIn = (n: number): boolean => below(n) === 0;
export const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function randomJob(given: readonly string[]): NewJob {
  const plain = oneIn(2);
  const isGiven = oneIn(20);
  return newJob({
    type: pick(types),
    queue: pick(queues),
    priority: pick([0, 0, 0, 1]),
    when: { inMs: oneIn(6) ? below(60) : 0 },
    ttlMs: oneIn(12) ? 30 + below(ttlMaxMs - 30) : null,
    ...(!plain && {
      key: pick([null, 'k', 'l', 'm']),
      deduplication: pick(['none', 'skip', 'replace', 'coalesce'] as const),
      exclusiveKey: pick([null, null, 'x', 'y']),
    }),
    ...(isGiven && { id: pick(given), idGiven: true, input: '"given"' }),
  });
}

function randomEnding(): Ending {
  const error = '{"message":"broken"}';
  return pick<Ending>([
    { kind: 'complete', result: 'null' },
    { kind: 'complete', result: 'null' },
    { kind: 'complete', result: 'null' },
    { kind: 'retry', inMs: below(40), error },
    { kind: 'exhaust', error },
    { kind: 'fail', error },
    { kind: 'snooze', when: { inMs: below(30) } },
    { kind: 'release' },
    { kind: 'cancel', error },
  ]);
}

export async function produce(store: Store, { ledger, given, isOver }: World): Promise<void> {
  while (!isOver()) {
    const jobs = Array.from({ length: oneIn(8) ? 40 : 1 + below(3) }, () => randomJob(given));
    const ids = jobs.map(({ id }) => id);
    const answers = await ledger.answered(store.insert(jobs, { atomic: false }), ids);
    ledger.inserted(answers ?? []);
    // As after a lost answer: the ids are known.
    const again = answers && oneIn(10) ? await ledger.answered(store.insert(jobs, { atomic: false }), ids) : null;
    if (answers && again) {
      ledger.inserted(again);
      for (const [index, { outcome }] of answers.entries())
        if (outcome === 'created') assert.equal(again[index]!.outcome, 'existing');
    }
    await pause(below(15));
  }
}

/** Transactions of a caller: some are rolled back, some get in the way of others and fail. */
export async function transact(store: Store, caller: Caller, { ledger, given, isOver }: World): Promise<void> {
  while (!isOver()) {
    await caller.run(pick(caller.begins));
    const said: (readonly Inserted[])[] = [];
    try {
      for (let n = 1 + below(3); n > 0; n--)
        said.push(await store.insert([randomJob(given), randomJob(given)], { atomic: oneIn(2), tx: caller.tx }));
      await pause(below(20));
      if (oneIn(3)) await caller.run('rollback');
      else {
        await caller.run('commit');
        for (const answers of said) ledger.inserted(answers);
        ledger.count('committed');
      }
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      assert.match(String(code), /^(STORE_UNAVAILABLE|IDEMPOTENCY_CONFLICT)$/, message);
      ledger.count(`tx ${code}`);
      await caller.run('rollback');
    }
    await pause(below(20));
  }
}

/** One of several workers: it holds some jobs, settles some, forgets some, and sometimes does not tell the truth. */
export async function work(
  stores: readonly Store[],
  owner: string,
  { ledger, isOver }: World,
  last = false,
): Promise<void> {
  let held: { id: string; epoch: number }[] = [];
  const epochs = new Set<number>();
  while (!isOver()) {
    const store = pick(stores);
    const next = { owner, ...request, slots: last ? 50 : below(6), ahead: oneIn(3) ? below(20) : 0 };
    const settling = last ? held : held.filter(() => !oneIn(4));
    held = last || oneIn(10) ? [] : held.filter((one) => !settling.includes(one));
    const settlements = settling.map(({ id, epoch }) => ({
      id,
      epoch: !last && oneIn(15) && epochs.size > 0 ? pick([...epochs]) : epoch,
      ending: last ? ({ kind: 'complete', result: 'null' } as const) : randomEnding(),
    }));
    const started = held.filter(() => oneIn(4));
    const ids = settlements.map(({ id }) => id);
    const settled = await ledger.answered(store.settle({ owner, settlements, started, next }), ids);
    if (!settled) continue;
    const { answers, claimed } = settled;
    for (const [index, { id, epoch, ending }] of settlements.entries())
      ledger.settled(id, epoch, ending, answers[index]!);
    if (!last && oneIn(5)) await repeat(pick(stores), owner, settlements, answers, ledger);
    if (claimed) {
      ledger.claimed(claimed);
      if (claimed.jobs.length > 0) epochs.add(claimed.epoch);
      held.push(...claimed.jobs.map(({ id }) => ({ id, epoch: claimed.epoch })));
    }
    if (!last && oneIn(3)) await stay(pick(stores), owner, held, ledger);
    await pause(below(last ? 10 : 25));
    // Gone for longer than its lease.
    if (!last && oneIn(60)) await pause(leaseMs * 1.5);
  }
}

/** As after a lost answer: what was ok is ok again, what was refused is refused again. And others may not settle it at all. */
async function repeat(
  store: Store,
  owner: string,
  settlements: readonly { id: string; epoch: number; ending: Ending }[],
  answers: readonly SettleAnswer[],
  ledger: Ledger,
): Promise<void> {
  const send = (as: string) => store.settle({ owner: as, settlements, started: [], next: null });
  const again = (await ledger.answered(send(owner), []))?.answers;
  const strange = (await ledger.answered(send('stranger'), []))?.answers;
  if (!again || !strange) return;
  for (const [index, { id, ending }] of settlements.entries()) {
    // A job that was removed may have left no trace, and one that was released may be held again by now.
    if (answers[index] === 'ok' && again[index] === 'ok') ledger.count('ok again');
    if (answers[index] !== 'ok') assert.notEqual(again[index], 'ok', `${ending.kind} of ${id} was refused before`);
    if (answers[index] === 'STALE_CLAIM') assert.notEqual(strange[index], 'ok');
  }
}

async function stay(store: Store, owner: string, held: readonly { id: string; epoch: number }[], ledger: Ledger) {
  const claims = [...new Set(held.map(({ epoch }) => epoch))].map((epoch) => {
    const ids = held.filter((one) => one.epoch === epoch).map(({ id }) => id);
    return { epoch, ids, started: ids.filter(() => oneIn(2)) };
  });
  const extended = await ledger.answered(store.extend({ owner, leaseMs, claims, card: null }), []);
  ledger.count('lost', extended?.lost.length ?? 0);
  ledger.count('asked to stop', extended?.cancelled.length ?? 0);
}

const moves = (): Move =>
  pick<Move>([
    { kind: 'cancel', reason: 'stop', force: false },
    { kind: 'cancel', reason: 'stop', force: true },
    { kind: 'remove', force: false },
    { kind: 'remove', force: true },
    { kind: 'reschedule', when: { inMs: below(30) }, priority: below(3) },
    { kind: 'retry', newIds: [newJob().id, newJob().id] },
  ]);

export async function meddle(store: Store, { ledger, isOver }: World): Promise<void> {
  while (!isOver()) {
    const states = pick([null, ['pending'], ['processing'], ['failed', 'cancelled']] as const);
    const { jobs } = await store.find({
      filter: { ...noFilter, states, types: [pick(types)] },
      cursor: null,
      limit: 20,
    });
    const ids = jobs.filter(() => oneIn(5)).map(({ id }) => id);
    if (ids.length > 0) {
      const move = moves();
      const touched = [...ids, ...(move.kind === 'retry' ? move.newIds : [])];
      const moving = store.move({ filter: { ...noFilter, ids }, move, dryRun: false, cursor: null, limit: 20 });
      for (const { id, outcome, newId } of (await ledger.answered(moving, touched))?.items ?? []) {
        ledger.count(outcome.split(':')[0]!);
        if (outcome === 'removed') ledger.removed.add(id);
        if (outcome === 'retried' && newId !== undefined) ledger.created.add(newId);
      }
    }
    await pause(below(40));
  }
}

export async function tend(store: Store, { ledger, isOver }: World): Promise<void> {
  while (!isOver()) {
    await ledger.answered(store.sweep({ limit: 50, cleanup: oneIn(2) ? null : cleanupAfter(86_400_000) }), []);
    await pause(below(60));
  }
}

export const cleanupAfter = (jobRetentionMs: number) => ({
  jobRetentionMs,
  maxStoredJobs: Number.POSITIVE_INFINITY,
  cleanupIntervalMs: 1_000,
  useCompletedTime: true,
});
