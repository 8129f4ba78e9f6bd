// The keys of a namespace in Redis, recounted from the rows: what the scripts keep beside them must say the same.
import type { Redis } from 'ioredis';
import { expect } from 'vitest';
import { replacedText } from '../../src/core/replaced.js';
import type { Store, StoredJob } from '../../src/core/store.js';
import { noFilter } from '../../src/core/store.js';

const root = '{lastout}:';

/** Every stored job, by pages. */
export async function allJobs(store: Store): Promise<StoredJob[]> {
  const jobs: StoredJob[] = [];
  let cursor: string | null = null;
  do {
    const page = await store.find({ filter: noFilter, cursor, limit: 500 });
    jobs.push(...page.jobs);
    cursor = page.next;
  } while (cursor !== null);
  return jobs;
}

/** Compares all that is derived with the rows. Tended to before: what has expired cannot be told from what was swept. */
export async function auditKeys(client: Redis, store: Store): Promise<void> {
  const jobs = await allJobs(store);
  const keys = new Set((await client.keys(`${root}*`)).map((key) => key.slice(root.length)));
  expect(await client.hlen(`${root}job`)).toBe(jobs.length);
  await auditChunks(client, jobs, keys);
  await auditClaims(client, jobs, keys);
  await auditLanes(client, jobs, keys);
  await auditOwned(client, jobs, keys);
  await auditOrders(client, jobs);
  const replaced = jobs.filter(({ error }) => error === replacedText).map(({ queue }) => queue);
  expect(numbers(await client.hgetall(`${root}replaced`))).toEqual(count(replaced));
  const shapes = await client.hgetall(`${root}shapeuses`);
  expect(sum(Object.values(shapes).map(Number))).toBe(jobs.length);
  expect(await client.hlen(`${root}shape`)).toBe(Object.keys(shapes).length);
  expect(await client.hlen(`${root}shapeno`)).toBe(Object.keys(shapes).length);
}

const isLive = ({ state }: StoredJob): boolean => state === 'pending' || state === 'processing';

async function auditChunks(client: Redis, jobs: readonly StoredJob[], keys: ReadonlySet<string>): Promise<void> {
  const all = count(jobs.map(({ type, seq }) => `${type}:${chunkOf(seq)}`));
  expect(numbers(await client.hgetall(`${root}chunkall`))).toEqual(all);
  const live = count(jobs.filter(isLive).map(({ type, seq }) => `${type}:${chunkOf(seq)}`));
  expect(numbers(await client.hgetall(`${root}chunklive`))).toEqual(live);
  expect([...keys].filter((key) => key.startsWith('i:')).sort()).toEqual(
    Object.keys(all)
      .map((key) => `i:${key}`)
      .sort(),
  );
  for (const name of Object.keys(all)) {
    const listed = listedIn(await client.lrange(`${root}i:${name}`, 0, -1));
    const standing = jobs.filter(({ type, seq }) => name === `${type}:${chunkOf(seq)}`);
    for (const { seq, id } of standing) expect(listed.get(seq % 1_024)).toBe(id);
  }
  for (const key of keys)
    if (key.startsWith('r:')) expect(Object.keys(all)).toContain(key.slice(2).replace(/:\w$/, ''));
  expect((await client.smembers(`${root}types`)).sort()).toEqual([...new Set(jobs.map(({ type }) => type))].sort());
  for (const [prefix, from] of [
    ['il', live],
    ['id', subtract(all, live)],
  ] as const) {
    const registered = [...keys].filter((key) => key.startsWith(`${prefix}:`));
    const chunks = await Promise.all(
      registered.map(async (key) =>
        (await client.zrange(root + key, '0', '-1')).map((chunk) => `${key.slice(3)}:${chunk}`),
      ),
    );
    expect(chunks.flat().sort()).toEqual(Object.keys(from).sort());
  }
}

/** Ids by the last part of their numbers: an entry has the first number as two digits, and the ids that follow each other. */
export function listedIn(entries: readonly string[]): Map<number, string> {
  const listed = new Map<number, string>();
  for (const entry of entries) {
    const first = Number.parseInt(entry.slice(0, 2), 32);
    for (const [i, id] of entry.slice(2).split(',').entries()) listed.set(first + i, id);
  }
  return listed;
}

async function auditClaims(client: Redis, jobs: readonly StoredJob[], keys: ReadonlySet<string>): Promise<void> {
  const running = jobs.filter(({ state }) => state === 'processing');
  const open = count(running.map(({ epoch }) => String(epoch)));
  const held: [string, number][] = [];
  const others: [string, string][] = [];
  for (const epoch of Object.keys(open)) {
    const plain = ((await client.get(`${root}b:${epoch}`)) ?? '').split(',').filter((id) => id.trim() !== '');
    const rest = await client.zrange(`${root}h:${epoch}`, '0', '-1');
    held.push(...[...plain, ...rest].map((id): [string, number] => [id, Number(epoch)]));
    others.push(...rest.map((id): [string, string] => [id, epoch]));
    const texts = plain.length > 0 ? await client.hmget(`${root}job`, ...plain) : [];
    for (const text of texts) expect(text).toMatch(/^P/);
  }
  expect(Object.fromEntries(held)).toEqual(Object.fromEntries(running.map(({ id, epoch }) => [id, epoch])));
  expect(held).toHaveLength(running.length);
  const fates = Object.entries(await client.hgetall(`${root}fate`));
  expect(Object.fromEntries(fates.map(([id, fate]) => [id, fate.slice(1)]))).toEqual(Object.fromEntries(others));
  for (const [, fate] of fates) expect(fate).toMatch(/^[.~]/);
  expect(numbers(await client.hgetall(`${root}co`))).toEqual(open);
  const epochs = Object.keys(open).sort();
  expect((await client.hkeys(`${root}c`)).sort()).toEqual(epochs);
  expect((await client.zrange(`${root}cd`, '0', '-1')).sort()).toEqual(epochs);
  for (const key of keys) if (/^[bha]:/.test(key)) expect(epochs).toContain(key.slice(2));
  const asked = running.filter(({ cancelAt }) => cancelAt !== null).map(({ id }) => id);
  expect((await client.hkeys(`${root}cancels`)).sort()).toEqual(asked.sort());
}

async function auditLanes(client: Redis, jobs: readonly StoredJob[], keys: ReadonlySet<string>): Promise<void> {
  const stale = numbers(await client.hgetall(`${root}stale`));
  const lanes = new Set<string>();
  const waiting: string[] = [];
  const byId = new Map(jobs.map((job) => [job.id, job]));
  for (const key of keys) {
    const [kind, ...rest] = key.split(':');
    if (kind === 'l') {
      lanes.add(rest.join(':'));
      const ids = await client.lrange(root + key, 0, -1);
      const texts = await client.hmget(`${root}job`, ...ids);
      const plain = ids.filter((id, i) => texts[i]?.startsWith('P') && byId.get(id)!.state === 'pending');
      expect(ids.length - plain.length).toBe(stale[rest.join(':')] ?? 0);
      waiting.push(...plain);
    } else if (kind === 'z' || kind === 'w') {
      if (kind === 'z') lanes.add(rest.join(':'));
      waiting.push(...(await client.zrange(root + key, '0', '-1')).map((member) => member.slice(10)));
    }
  }
  waiting.push(...(await client.zrange(`${root}later`, '0', '-1')).map((member) => member.slice(10)));
  const pending = jobs.filter(({ state }) => state === 'pending');
  expect(waiting.sort()).toEqual(pending.map(({ id }) => id).sort());
  const queues = await Promise.all(
    [...keys]
      .filter((key) => key.startsWith('q:'))
      .map(async (key) => (await client.smembers(root + key)).map((queue) => `${key.slice(2)}:${queue}`)),
  );
  expect(queues.flat().sort()).toEqual([...lanes].sort());
}

async function auditOwned(client: Redis, jobs: readonly StoredJob[], keys: ReadonlySet<string>): Promise<void> {
  const owned = jobs.filter(({ ownedBy }) => ownedBy !== null);
  const live = owned.filter(isLive);
  expect(numbers(await client.hgetall(`${root}owns`))).toEqual(count(live.map(({ ownedBy }) => ownedBy!)));
  const sets = [...keys].filter((key) => key.startsWith('o:')).map((key) => key.slice(2));
  expect(sets.sort()).toEqual([...new Set(owned.map(({ ownedBy }) => ownedBy!))].sort());
  for (const owner of sets) {
    const ids = await client.zrange(`${root}o:${owner}`, '0', '-1');
    const own = owned.filter(({ ownedBy }) => ownedBy === owner).sort((a, b) => a.seq - b.seq);
    expect(ids).toEqual(own.map(({ id }) => id));
  }
  const counters = numbers(await client.hgetall(`${root}n`));
  expect(counters['owned'] ?? 0).toBe(live.length);
  const things = (await client.zrange(`${root}things`, '0', '-1')).map((member) => member.slice(10));
  const isThing = ({ state, heldUntil, queue }: StoredJob): boolean =>
    state === 'pending' && heldUntil === null && queue === 'lastout';
  expect(things.sort()).toEqual(owned.filter(isThing).map(({ id }) => id).sort()); // biome-ignore format: one line
  const kinds = count(jobs.map(({ queue, type }) => (queue === 'lastout' ? type : 'job')));
  const made = Object.entries(counters).filter(([name]) => name.startsWith('made:'));
  const own = sum(made.map(([, n]) => n));
  const totals = {
    ...Object.fromEntries(made.map(([name, n]) => [name.slice(5), n])),
    job: (counters['seq'] ?? 0) - own,
  };
  for (const [kind, n] of Object.entries(totals)) expect(n - (counters[`gone:${kind}`] ?? 0)).toBe(kinds[kind] ?? 0);
}

/** A finished job is held, or stands in exactly one order of time. */
async function auditOrders(client: Redis, jobs: readonly StoredJob[]): Promise<void> {
  const held = (await client.zrange(`${root}held`, '0', '-1')).map((member) => member.slice(10));
  const isHeld = ({ heldUntil }: StoredJob): boolean => heldUntil !== null;
  expect(held.sort()).toEqual(jobs.filter(isHeld).map(({ id }) => id).sort()); // biome-ignore format: one line
  const ordered = [...(await client.zrange(`${root}fz`, '0', '-1')), ...(await client.zrange(`${root}fo`, '0', '-1'))];
  const records = await client.lrange(`${root}fin`, 0, -1);
  const listed = records.flatMap((record) => record.split('\n')[1]!.split(','));
  const texts = listed.length > 0 ? await client.hmget(`${root}job`, ...listed) : [];
  const plain = listed.filter((_, i) => texts[i]?.startsWith('P'));
  const standing = [...ordered.map((member) => member.slice(10)), ...plain];
  const finished = jobs.filter((job) => !isLive(job) && !isHeld(job));
  expect(standing.sort()).toEqual(finished.map(({ id }) => id).sort());
}

/** What is left of a namespace that has no job: counters, and logs that are bounded. */
export async function leftovers(client: Redis): Promise<string[]> {
  const kept = new Set(['born', 'n', 'ev', 'tomb', 'tombs', 'term', 'ledger']);
  const keys = (await client.keys(`${root}*`)).map((key) => key.slice(root.length));
  return keys.filter((key) => !kept.has(key));
}

function chunkOf(seq: number): string {
  return Math.floor(seq / 1_024)
    .toString(32)
    .padStart(8, '0');
}

function count(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

function subtract(a: Record<string, number>, b: Record<string, number>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(a)
      .map(([name, n]) => [name, n - (b[name] ?? 0)] as const)
      .filter(([, n]) => n > 0),
  );
}

const numbers = (hash: Record<string, string>): Record<string, number> =>
  Object.fromEntries(Object.entries(hash).map(([name, n]) => [name, Number(n)]));

const sum = (list: readonly number[]): number => list.reduce((total, n) => total + n, 0);
