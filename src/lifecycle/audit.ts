/** The books: for each kind of thing, what was created has been released, or lives, or needs attention. */
import { finishedStates, type State, states } from '../core/job.js';
import { isLease, isLeaseType, isLeftBehind } from '../core/lease-record.js';
import { leftAlive } from '../core/left-alive.js';
import { systemQueue } from '../core/names.js';
import { isGoing, isHeld } from '../core/owned.js';
import { everyPage } from '../core/pages.js';
import type { CleanupPolicy } from '../core/policy.js';
import { type AuditPage, noFilter, type Store, type StoredJob, type Tally } from '../core/store.js';
import type { System } from '../core/system.js';
import { ownersOf } from './freeing.js';

export interface Audit {
  readonly clean: boolean;
  /** Where a count that is kept differs from the rows that are there. */
  readonly counts: readonly {
    readonly queue: string;
    readonly state: State | 'replaced';
    readonly counted: number;
    readonly found: number;
  }[];
  readonly kinds: {
    readonly [kind: string]: {
      readonly created: number;
      readonly released: number;
      readonly live: number;
      readonly attention: readonly string[];
    };
  };
}

interface Sums {
  created: number;
  released: number;
  live: number;
  readonly attention: string[];
}

const pageLimit = 1_000;
const thingsLimit = 500;
const kept = [...states, 'replaced'] as const;

/** So often it looks where counts and rows differ: what others do meanwhile is no difference that stays. */
const looksMax = 5;

export async function auditOn(store: Store, system: System, cleanup: CleanupPolicy): Promise<Audit> {
  let { kinds, counts } = await look(store, system, cleanup);
  for (let looks = 1; counts.length > 0 && looks < looksMax; looks++) {
    const before = new Set(counts.map(nameOf));
    ({ kinds, counts } = await look(store, system, cleanup));
    counts = counts.filter((count) => before.has(nameOf(count)));
  }
  const clean = counts.length === 0 && [...kinds.values()].every(isEven);
  return { clean, counts, kinds: Object.fromEntries(gathered(kinds)) };
}

const nameOf = ({ queue, state }: { readonly queue: string; readonly state: State | 'replaced' }): string =>
  `${queue} ${state}`;

async function look(store: Store, system: System, cleanup: CleanupPolicy) {
  const kinds = new Map<string, Sums>();
  const found = new Map<string, number>();
  const before = countsIn(await store.tally(cleanup));
  for (let cursor: string | null = null; ; ) {
    const page: AuditPage = await store.readAudit({ cursor, limit: pageLimit });
    for (const [kind, part] of Object.entries(page.kinds)) {
      const sums = kinds.get(kind) ?? { created: 0, released: 0, live: 0, attention: [] };
      kinds.set(kind, sums);
      sums.created += part.created;
      sums.released += part.released;
      sums.live += part.live;
      sums.attention.push(...part.attention);
    }
    for (const part of page.found) found.set(nameOf(part), (found.get(nameOf(part)) ?? 0) + part.n);
    if (page.next === null) break;
    cursor = page.next;
    await new Promise<void>((resolve) => system.soon(resolve));
  }
  for (const [kind, sums] of kinds) if (isLeaseType(kind)) await leaveOutEnded(store, kind, sums);
  for await (const [kind, id] of stuck(store, system.now(), cleanup)) {
    const sums = kinds.get(kind);
    if (!sums) continue; // it came after the pages were read
    sums.live -= 1;
    sums.attention.push(id);
  }
  return { kinds, counts: differences(before, countsIn(await store.tally(cleanup)), found) };
}

type Counts = ReadonlyMap<string, number>;

function countsIn({ queues }: Tally): Counts {
  return new Map(queues.flatMap((tally) => kept.map((state) => [nameOf({ queue: tally.queue, state }), tally[state]])));
}

/**
 * The counts are kept by the steps that change them; what was found was counted anew. While others work the counts move: what was
 * found is right if it lies between those before and those after.
 */
function differences(before: Counts, after: Counts, found: Counts): Audit['counts'] {
  const names = new Set([...before.keys(), ...after.keys(), ...found.keys()]);
  return [...names].sort().flatMap((name) => {
    const [queue, state] = name.split(' ') as [string, State | 'replaced'];
    const [then, now, there] = [before, after, found].map((numbers) => numbers.get(name) ?? 0) as [
      number,
      number,
      number,
    ];
    const isRight = there >= Math.min(then, now) && there <= Math.max(then, now);
    return isRight ? [] : [{ queue, state, counted: now, found: there }];
  });
}

/** The record of a lease stays for a while after it has ended. */
async function leaveOutEnded(store: Store, kind: string, sums: Sums): Promise<void> {
  const filter = { ...noFilter, types: [kind], queues: [systemQueue], states: finishedStates };
  for await (const _ended of everyPage(store, filter, thingsLimit)) {
    sums.live -= 1;
    sums.released += 1;
  }
}

/** By the names that users know: all leases are one kind, whatever they are on. */
function gathered(kinds: ReadonlyMap<string, Sums>): Map<string, Sums> {
  const named = new Map<string, Sums>();
  for (const [kind, { created, released, live, attention }] of kinds) {
    const name = isLeaseType(kind) ? 'leases' : shortKind(kind);
    const sums = named.get(name) ?? { created: 0, released: 0, live: 0, attention: [] };
    named.set(name, sums);
    sums.created += created;
    sums.released += released;
    sums.live += live;
    sums.attention.push(...attention);
  }
  return named;
}

/** Things that should have gone, and the finished jobs that they keep: their kinds and ids. */
async function* stuck(store: Store, now: number, { cleanupIntervalMs }: CleanupPolicy) {
  const isLate = (record: StoredJob): boolean =>
    record.ownedBy !== null &&
    !isHeld(record, now) &&
    ((isGoing(record) && record.cancelReason !== null) || record.dueAt! < now - cleanupIntervalMs);
  const filter = { ...noFilter, queues: [systemQueue], states: ['pending' as const, 'processing' as const] };
  const late: StoredJob[] = [];
  const leases: StoredJob[] = [];
  for await (const record of everyPage(store, filter, thingsLimit)) {
    if (isLease(record)) leases.push(record);
    else if (record.state === 'pending' && isLate(record)) late.push(record);
  }
  const alive: ReadonlySet<string> = leases.length === 0 ? new Set() : await leftAlive(store);
  for (const lease of leases) if (isLeftBehind(lease, now, alive)) yield [lease.type, lease.id] as const;
  const owners = await ownersOf(store, late);
  const kept = new Set<string>();
  for (const { type, id, ownedBy } of late) {
    const owner = owners.get(ownedBy!);
    // While a job runs, or is held, what it owns may be late.
    if (!owner || owner.state === 'processing' || isHeld(owner, now)) continue;
    yield [type, id] as const;
    if (owner.completedAt !== null) kept.add(owner.id);
  }
  for (const id of kept) yield ['job', id] as const;
}

function isEven({ created, released, live, attention }: Sums): boolean {
  return attention.length === 0 && created === released + live;
}

/** `lastout.artifact` is an artifact to its users. */
function shortKind(kind: string): string {
  return kind.startsWith('lastout.') ? kind.slice('lastout.'.length) : kind;
}
