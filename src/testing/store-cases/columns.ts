/**
 * Every column of a job, one by one: a job that is plain but for that column comes among plain ones, by each way in, and is
 * read, claimed and retried with it. The cases come from the table of columns, so that a new one has its cases.
 */
import assert from 'node:assert/strict';
import { columnList, plainJob, plainStored } from '../../core/columns.js';
import type { NewJob, StoredJob } from '../../core/store.js';
import { type Bench, claim, ending, leaseMs, newJob, storeCase } from './bench.js';

type Name = keyof NewJob;
const types = ['mail', 'sms'];
const laterMs = 60_000;

const samples: { readonly [K in Name]?: NewJob[K] } = {
  id: 'zz-another',
  type: 'sms',
  queue: 'fast',
  when: { inMs: laterMs },
  subject: 'trip:42',
  deduplication: 'skip',
  policy: JSON.stringify({ backoff: null, timeoutMs: 500, keep: {} }),
  under: { epoch: 1, owner: 'nobody', id: 'no-job' },
};
const samplesByType = { text: '["another"]', int: 7, bigint: 90_000, boolean: true } as const;

/** What a job has in a column that plain ones have not. */
async function differing(name: Name, sql: (typeof columnList)[number]['sql'], bench: Bench): Promise<Partial<NewJob>> {
  if (name === 'ownedBy') return { ownedBy: await bench.add({ type: 'owner' }) };
  return { [name]: samples[name] ?? samplesByType[Object.values(sql)[0]!] };
}

/** Columns that nobody sees in a stored job: how it is noticed that it has them. */
const noticed: Record<Exclude<Name, keyof StoredJob>, (bench: Bench, job: NewJob) => Promise<void>> = {
  async idGiven({ store }, job) {
    const [answer] = await store.insert([{ ...job, input: '"another"' }], { atomic: false });
    assert.equal(answer?.outcome, 'refused');
  },
  async print({ store }, job) {
    const [answer] = await store.insert([{ ...job, idGiven: true, input: '"another"' }], { atomic: false });
    assert.equal(answer?.outcome, 'existing', 'it is compared by its print, not by its input');
  },
  async when(bench, job) {
    assert.equal((await bench.job(job.id)).scheduledFor, bench.now() + laterMs);
  },
  async ttlMs(bench, job) {
    assert.equal((await bench.job(job.id)).expiresAt, bench.now() + job.ttlMs!);
  },
  async deduplication(bench, job) {
    // Among plain ones it is skipped; by itself it is stored, and has a slot.
    if (!(await bench.exists(job.id))) return;
    await bench.cancel(job.id);
    for (const id of await bench.find({ states: ['pending'] })) await bench.cancel(id);
    const owner = await bench.add({ deduplication: 'skip' });
    assert.deepEqual(await bench.move([job.id], { kind: 'retry', newIds: ['again'] }), [
      { id: job.id, outcome: 'skipped', newId: owner },
    ]);
  },
  async under(bench, job) {
    assert.equal(await bench.exists(job.id), false, 'no such claim: it is refused');
  },
};

/** How jobs come in: the one that differs, and plain ones before and after it. */
const ways: { readonly [way: string]: (bench: Bench, odd: NewJob) => Promise<unknown> } = {
  'in a batch': ({ store }, odd) => store.insert([...plain(5), odd, ...plain(5)], { atomic: false }),
  'in a batch that is all or none': async ({ store }, odd) =>
    store
      .insert([...plain(5), odd, ...plain(5)], { atomic: true })
      .catch((error: unknown) => assert.ok(odd.under, String(error))),
  async 'one by one'({ store }, odd) {
    for (const job of [...plain(5), odd, ...plain(2)]) await store.insert([job], { atomic: false });
  },
  async 'by itself'({ store }, odd) {
    await store.insert([odd], { atomic: false });
    await store.insert(plain(2), { atomic: false });
  },
};

function plain(n: number): NewJob[] {
  return Array.from({ length: n }, () => newJob());
}

/** All that is shown is that of a plain job, but for what differs. */
async function assertShown(
  bench: Bench,
  odd: readonly NewJob[],
  changes: Partial<NewJob>,
  shown: StoredJob,
): Promise<void> {
  const differs = Object.entries(changes).filter(([name]) => name in plainStored);
  const [like] = (await bench.find({ types: ['mail'] })).filter((id) => odd.every((job) => job.id !== id));
  const { seq, id, scheduledFor, expiresAt, dueAt } = shown;
  const found = await bench.job(like!);
  assert.deepEqual(shown, { ...found, ...Object.fromEntries(differs), seq, id, scheduledFor, expiresAt, dueAt });
  assert.notEqual(seq, found.seq);
}

async function assertRetried(bench: Bench, odd: NewJob, changes: Partial<NewJob>, epoch: number): Promise<void> {
  await bench.settle({ id: odd.id, epoch, owner: 'worker-1' }, ending.fail());
  await bench.move([odd.id], { kind: 'retry', newIds: ['zz-again'] });
  const [old, again] = [await bench.job(odd.id), await bench.job('zz-again')];
  for (const { name, retried } of columnList) {
    if (name === 'id' || !(name in plainStored)) continue;
    const expected = retried ? old[name as keyof StoredJob] : plainJob[name as keyof typeof plainJob];
    assert.deepEqual(again[name as keyof StoredJob], expected, name);
    if (retried && name in changes) assert.deepEqual(again[name as keyof StoredJob], changes[name], name);
  }
  assert.equal(again.expiresAt, odd.ttlMs === null ? null : bench.now() + odd.ttlMs);
}

const alone = columnList.flatMap(({ name, sql }) =>
  Object.entries(ways).map(([way, insert]) =>
    storeCase(`insert: a job that differs in ${name} from plain ones keeps it, ${way}`, async (bench) => {
      const changes = await differing(name, sql, bench);
      const odd: NewJob = { ...newJob(), ...changes };
      await insert(bench, odd);
      if (name in noticed) await noticed[name as keyof typeof noticed](bench, odd);
      if (name === 'under' || name === 'deduplication') return;
      await assertShown(bench, [odd], changes, await bench.job(odd.id));
      if (name === 'when') bench.advance(laterMs);
      const { jobs, epoch } = await claim(bench.store, { types });
      const claimed = jobs.find(({ id }) => id === odd.id)!;
      assert.deepEqual(claimed, await bench.job(odd.id));
      await assertShown(bench, [odd], changes, claimed);
      assert.equal(claimed.dueAt, bench.now() + leaseMs);
      await assertRetried(bench, odd, changes, epoch);
    }),
  ),
);

/** Those whose whole batch may have it. */
const shared = columnList.filter(({ head }) => head);

const together = shared.map(({ name, sql }) =>
  storeCase(`insert: jobs of a batch that have the same ${name} keep it`, async (bench) => {
    const changes = await differing(name, sql, bench);
    const jobs = plain(5).map((job): NewJob => ({ ...job, ...changes }));
    await bench.store.insert(jobs, { atomic: false });
    await bench.store.insert(plain(1), { atomic: false });
    for (const job of jobs) {
      await assertShown(bench, jobs, changes, await bench.job(job.id));
      await noticed[name as keyof typeof noticed]?.(bench, job);
    }
  }),
);

export const columnCases = [...alone, ...together];
