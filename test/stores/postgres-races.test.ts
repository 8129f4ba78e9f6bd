// Many connections at once, doing everything that gets in each other's way: producers with every strategy and exclusive keys,
// transactions of callers, workers that lapse, repeat themselves and lie, moves by hand, sweeps. Meanwhile the tables are
// audited, and at the end nothing is lost and nothing is left. LASTOUT_RACES_MS makes it longer.
import assert from 'node:assert/strict';
import pg from 'pg';
import { expect, it } from 'vitest';
import type { Ending } from '../../src/core/ending.js';
import {
  type Claimed,
  type Inserted,
  type Move,
  type NewJob,
  noFilter,
  type SettleAnswer,
  type Store,
} from '../../src/core/store.js';
import { describeOn } from '../engines.js';
import { emptyPostgres } from '../services.js';
import { faultsIn, leftovers } from './postgres-audit.js';
import { newJob, openStore, plainPool } from './postgres-support.js';

const runMs = Number(process.env.LASTOUT_RACES_MS ?? 10_000);
const types = ['a', 'b'];
const queues = ['q', 'r'];
const leaseMs = 250;
const request = { types, queues: null, leaseMs, maxStalls: 2 } as const;

const below = (n: number): number => Math.floor(Math.random() * n);
const pick = <T>(list: readonly T[]): T => list[below(list.length)]!;
const oneIn = (n: number): boolean => below(n) === 0;
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** What was said by the store, and must turn out to be true. */
class Ledger {
  readonly created = new Set<string>();
  readonly removed = new Set<string>();
  /** Ids of calls whose answer was lost. */
  readonly unsure = new Set<string>();
  /** By claim, the ways in which it was told to have ended. */
  readonly ended = new Map<string, Set<string>>();
  readonly claims = new Set<string>();
  readonly counts = new Map<string, number>();

  count(what: string, n = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + n);
  }

  inserted(answers: readonly Inserted[]): void {
    for (const { id, outcome } of answers) {
      this.count(outcome);
      if (outcome === 'created' || outcome === 'replaced') this.created.add(id);
    }
  }

  /** The answer, or null where it was lost: a machine at its limit gives connections up. Nothing else may go wrong. */
  async answered<T>(call: Promise<T>, ids: readonly string[]): Promise<T | null> {
    try {
      return await call;
    } catch (error) {
      if ((error as { code?: string }).code !== 'RESULT_UNKNOWN') throw error;
      this.count('unknown');
      for (const id of ids) this.unsure.add(id);
      return null;
    }
  }

  claimed({ epoch, jobs }: Claimed): void {
    for (const { id } of jobs) {
      assert.ok(!this.claims.has(`${id} ${epoch}`), `job ${id} was claimed twice as ${epoch}`);
      this.claims.add(`${id} ${epoch}`);
    }
    this.count('claimed', jobs.length);
  }

  settled(id: string, epoch: number, ending: Ending, answer: SettleAnswer): void {
    this.count(answer);
    if (answer !== 'ok') return;
    const ways = this.ended.get(`${id} ${epoch}`) ?? new Set();
    this.ended.set(`${id} ${epoch}`, ways.add(ending.kind));
    assert.equal(ways.size, 1, `claim ${epoch} of job ${id} ended as ${[...ways].join(' and ')}`);
  }
}

function randomJob(given: readonly string[]): NewJob {
  const plain = oneIn(2);
  const isGiven = oneIn(20);
  return newJob({
    type: pick(types),
    queue: pick(queues),
    priority: pick([0, 0, 0, 1]),
    when: { inMs: oneIn(6) ? below(60) : 0 },
    ttlMs: oneIn(12) ? 30 + below(400) : null,
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

interface World {
  readonly ledger: Ledger;
  readonly given: readonly string[];
  isOver(): boolean;
}

async function produce(store: Store, { ledger, given, isOver }: World): Promise<void> {
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
async function transact(store: Store, url: string, { ledger, given, isOver }: World): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  while (!isOver()) {
    await client.query(oneIn(3) ? 'begin isolation level repeatable read' : 'begin');
    const said: (readonly Inserted[])[] = [];
    try {
      for (let n = 1 + below(3); n > 0; n--)
        said.push(await store.insert([randomJob(given), randomJob(given)], { atomic: oneIn(2), tx: client }));
      await pause(below(20));
      if (oneIn(3)) await client.query('rollback');
      else {
        await client.query('commit');
        for (const answers of said) ledger.inserted(answers);
        ledger.count('committed');
      }
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      assert.match(String(code), /^(STORE_UNAVAILABLE|IDEMPOTENCY_CONFLICT)$/, message);
      ledger.count(`tx ${code}`);
      await client.query('rollback');
    }
    await pause(below(20));
  }
  await client.end();
}

/** One of several workers: it holds some jobs, settles some, forgets some, and sometimes does not tell the truth. */
async function work(stores: readonly Store[], owner: string, { ledger, isOver }: World, last = false): Promise<void> {
  let held: { id: string; epoch: number }[] = [];
  const epochs = new Set<number>();
  while (!isOver()) {
    const store = pick(stores);
    const next = { owner, ...request, slots: below(6), ahead: oneIn(3) ? below(20) : 0 };
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

async function meddle(store: Store, { ledger, isOver }: World): Promise<void> {
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

async function tend(store: Store, { ledger, isOver }: World): Promise<void> {
  while (!isOver()) {
    await ledger.answered(
      store.sweep({ limit: 50, cleanup: oneIn(2) ? null : cleanupAfter(86_400_000), term: null, entry: null }),
      [],
    );
    await pause(below(60));
  }
}

const cleanupAfter = (jobRetentionMs: number) => ({
  jobRetentionMs,
  maxStoredJobs: Number.POSITIVE_INFINITY,
  cleanupIntervalMs: 1_000,
  useCompletedTime: true,
});

async function audit(pool: pg.Pool, { ledger, isOver }: World): Promise<void> {
  while (!isOver()) {
    assert.deepEqual(await faultsIn(pool), []);
    ledger.count('audits');
    await pause(50);
  }
}

/** Whoever stops early stops all the others. */
async function all(
  acts: readonly ((world: World) => Promise<void>)[],
  world: Omit<World, 'isOver'>,
  until: () => boolean,
) {
  let failed = false;
  const isOver = (): boolean => failed || until();
  const fail = (error: unknown): never => {
    failed = true;
    throw error;
  };
  const ends = await Promise.allSettled(acts.map((act) => act({ ...world, isOver }).catch(fail)));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

async function finishAll(stores: readonly Store[], pool: pg.Pool, world: Omit<World, 'isOver'>): Promise<void> {
  const deadline = Date.now() + 60_000;
  let left = 1;
  const count = async ({ isOver }: World): Promise<void> => {
    while (!isOver()) {
      const { queues: tallies } = await stores[0]!.tally(cleanupAfter(1));
      left = tallies.reduce((sum, { pending, processing }) => sum + pending + processing, 0);
      await pause(20);
    }
  };
  const last = stores.map((store, n) => (to: World) => work([store], `last-${n}`, to, true));
  await all([...last, count, (to) => audit(pool, to)], world, () => left === 0 || Date.now() > deadline);
  expect(left, 'jobs that nobody can claim').toBe(0);
}

describeOn('postgres', 'races on PostgreSQL', () => {
  it('lose nothing, double nothing and leave nothing, whoever meets whom', { timeout: runMs + 120_000 }, async () => {
    const url = await emptyPostgres();
    const pool = plainPool(url, { max: 2 });
    const stores = await Promise.all(Array.from({ length: 5 }, () => openStore(url)));
    const ledger = new Ledger();
    const world = { ledger, given: Array.from({ length: 40 }, (_, n) => `given-${n}`) };
    const end = Date.now() + runMs;
    const acts = [
      ...stores.slice(0, 4).map((store) => (to: World) => produce(store, to)),
      ...stores.slice(0, 2).map((store) => (to: World) => transact(store, url, to)),
      ...Array.from({ length: 6 }, (_, n) => (to: World) => work(stores.slice(n % 3, (n % 3) + 3), `worker-${n}`, to)),
      (to: World) => meddle(stores[3]!, to),
      (to: World) => tend(stores[4]!, to),
      (to: World) => audit(pool, to),
    ];
    await all(acts, world, () => Date.now() > end);
    await finishAll(stores, pool, world);

    const { rows } = await pool.query<{ id: string }>(
      'select b.id from lastout.jobs b join lastout.done d on d.seq = b.seq',
    );
    const finished = new Set(rows.map(({ id }) => id));
    const lost = [...ledger.created].filter(
      (id) => !finished.has(id) && !ledger.removed.has(id) && !ledger.unsure.has(id),
    );
    expect(lost, 'created, not finished and not removed').toEqual([]);
    for (const id of finished)
      expect(ledger.created.has(id) || ledger.removed.has(id) || ledger.unsure.has(id), `${id} was never created`).toBe(
        true,
      );
    for (const what of [
      'skipped',
      'coalesced',
      'replaced',
      'existing',
      'STALE_CLAIM',
      'ok again',
      'committed',
      'audits',
    ])
      expect(ledger.counts.get(what), what).toBeGreaterThan(0);
    console.log(
      `races: ${[...ledger.counts]
        .map(([what, n]) => `${n} ${what}`)
        .toSorted()
        .join(', ')}`,
    );

    for (let more = true; more; )
      ({ more } = await stores[0]!.sweep({ limit: 500, cleanup: cleanupAfter(-1), term: null, entry: null }));
    expect(await leftovers(pool)).toEqual({});
    expect((await stores[0]!.tally(cleanupAfter(1))).queues).toEqual([]);
  });
});
