/**
 * One sweep for orphans of a kind: pending jobs whose subject is over, or was found absent in so many sweeps in a row. The
 * sweep first asks, then judges as a whole, and only then acts: an outage or a mistake in the check shows before anything
 * is lost.
 */
import { noFilter, type Store } from '../core/store.js';
import { idIn, kindOf, orphanReason, type SubjectSweep } from '../core/subject.js';
import { type Asked, idsMax, type Presences, type Rule } from './presence.js';

/** Subjects that one sweep asks for; the next one goes on where it stopped. */
const subjectsMax = 10_000;
/** Subjects that are remembered from one sweep to the next. */
const suspectsMax = 1_000;
const pageLimit = 200;
/** Orphans that a sweep tells one by one. */
const orphansMax = 1_000;

/** What sweeps of a kind remember, whichever process does the next one. */
export interface Memory {
  /** Where the next sweep begins to look; null: at the newest job. */
  readonly cursor: string | null;
  /** How many sweeps in a row found a subject absent. */
  readonly suspects: { readonly [subject: string]: number };
  /** Confirmed, or over, and still there: a brake or a failure kept them. */
  readonly confirmed: number;
}

export const noMemory: Memory = { cursor: null, suspects: {}, confirmed: 0 };

export interface SweptOrphans extends SubjectSweep {
  readonly memory: Memory;
  /** Of the confirmed ones: those that are absent, which the brake may keep. */
  readonly absent: number;
  /** Subjects whose pending jobs were ended. */
  readonly ended: number;
}

export interface SweepParts {
  readonly store: Store;
  readonly presences: Presences;
  readonly rule: Rule;
  readonly memory: Memory;
  readonly signal: AbortSignal;
  /** Rejects where the sweep is no longer ours. */
  goOn(): Promise<void>;
}

export async function sweepOrphans(parts: SweepParts): Promise<SweptOrphans> {
  const { rule, memory } = parts;
  const { subjects, cursor } = await pendingSubjects(parts);
  const asked = await askAll(parts, subjects);
  const known = memory.suspects;
  const absent = new Map(asked.absent.map((subject) => [subject, Math.min((known[subject] ?? 0) + 1, rule.confirm)]));
  const confirmed = [...absent].filter(([, times]) => times >= rule.confirm).map(([subject]) => subject);
  // All that is absent is weighed, also what is not confirmed yet: of very many, only some are remembered from sweep to sweep.
  const isMuch = subjects.size >= rule.brake.atLeast && absent.size > rule.brake.share * subjects.size;
  const braked = isMuch && confirmed.length > 0;
  // What is there and over is no mistake of a database that has lost its rows: the brake neither counts nor keeps it.
  const done = await condemnAll(parts, asked.over, braked ? [] : confirmed);
  // Not looked at in this sweep, which is a part of all: they wait for the next one.
  const isPart = cursor !== null || memory.cursor !== null;
  const others = Object.entries(known).filter(([subject]) => isPart && !subjects.has(subject));
  const suspects = [...absent, ...others]
    .filter(([subject]) => !done.gone.has(subject))
    .sort(([, a], [, b]) => b - a)
    .slice(0, suspectsMax);
  const kept = suspects.filter(([, times]) => times >= rule.confirm).length;
  return {
    memory: {
      cursor,
      suspects: Object.fromEntries(suspects),
      confirmed: kept + asked.over.filter((subject) => !done.gone.has(subject)).length,
    },
    absent: confirmed.length,
    ended: done.gone.size,
    checked: subjects.size,
    confirmed: confirmed.length + asked.over.length,
    cancelled: done.cancelled,
    orphans: done.orphans,
    failures: asked.failures + done.failures,
    braked,
  };
}

/** The subjects of the kind that pending jobs have, delayed ones too; running ones are left to their handlers. */
async function pendingSubjects({ store, rule, memory, goOn, signal }: SweepParts) {
  const subjects = new Set<string>();
  const filter = { ...noFilter, states: ['pending' as const], system: false };
  let { cursor } = memory;
  do {
    signal.throwIfAborted();
    const page = await store.find({ filter, cursor, limit: pageLimit });
    for (const { subject } of page.jobs) if (subject !== null && kindOf(subject) === rule.kind) subjects.add(subject);
    cursor = page.next;
    await goOn();
  } while (cursor !== null && subjects.size < subjectsMax);
  return { subjects, cursor };
}

interface Answers {
  readonly over: readonly string[];
  readonly absent: readonly string[];
  readonly failures: number;
}

async function askAll(parts: SweepParts, subjects: Iterable<string>): Promise<Answers> {
  const all = [...subjects];
  const over: string[] = [];
  const absent: string[] = [];
  let failures = 0;
  for (let at = 0; at < all.length; at += idsMax) {
    const some = all.slice(at, at + idsMax);
    const { answers, failure } = await ask(parts, some);
    if (failure !== null) failures += 1;
    over.push(...some.filter((_, index) => answers[index] === 'over'));
    absent.push(...some.filter((_, index) => answers[index] === 'absent'));
  }
  return { over, absent, failures };
}

async function ask({ presences, rule, signal, goOn }: SweepParts, subjects: readonly string[]): Promise<Asked> {
  const asked = await presences.check(rule, subjects.map(idIn), signal);
  signal.throwIfAborted();
  await goOn();
  return asked;
}

interface Done {
  /** Subjects that have no pending job any more. */
  readonly gone: ReadonlySet<string>;
  readonly cancelled: number;
  readonly orphans: SubjectSweep['orphans'];
  readonly failures: number;
}

/**
 * They are asked for once more, right before the deed; the store then ends only what is still pending. What was over and is
 * absent now is not confirmed to be absent, and waits for the next sweep.
 */
async function condemnAll(parts: SweepParts, over: readonly string[], absent: readonly string[]): Promise<Done> {
  const subjects = [...over, ...absent];
  const mayBeAbsent = new Set(absent);
  const gone = new Set<string>();
  const orphans: { id: string; subject: string }[] = [];
  let cancelled = 0;
  let failures = 0;
  const end = async (subject: string, presence: 'over' | 'absent'): Promise<void> => {
    await condemn(parts, subject, orphanReason(subject, presence), (id) => {
      cancelled += 1;
      if (orphans.length < orphansMax) orphans.push({ id, subject });
    });
    gone.add(subject);
  };
  for (let at = 0; at < subjects.length; at += idsMax) {
    const still = await askAll(parts, subjects.slice(at, at + idsMax));
    failures += still.failures;
    for (const subject of still.over) await end(subject, 'over');
    for (const subject of still.absent) if (mayBeAbsent.has(subject)) await end(subject, 'absent');
  }
  return { gone, cancelled, orphans, failures };
}

async function condemn(
  { store, goOn }: SweepParts,
  subject: string,
  reason: string,
  see: (id: string) => void,
): Promise<void> {
  const filter = { ...noFilter, subject, states: ['pending' as const], system: false };
  const move = { kind: 'condemn', reason } as const;
  for (let cursor: string | null = null; ; ) {
    await goOn();
    const page: Awaited<ReturnType<Store['move']>> = await store.move({
      ...{ filter, move, cursor },
      dryRun: false,
      limit: pageLimit,
    });
    for (const { id, outcome } of page.items) if (outcome === 'cancelled') see(id);
    if (page.next === null) return;
    cursor = page.next;
  }
}
