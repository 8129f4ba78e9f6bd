/** What a cleanup would remove now, by the very selection that removes it, and what stays only because it is held. */
import { isUnknown } from '../core/deadlines.js';
import { type Code, LastoutError } from '../core/errors.js';
import type { Finalizer } from '../core/owned.js';
import type { CleanupPolicy } from '../core/policy.js';
import type { PlannedOwner, PlanPage, PlanPart, PlanRequest, RetentionRule, Store, StoredJob } from '../core/store.js';
import type { System } from '../core/system.js';
import { foresightOn } from './foresee.js';
import { orphansOn } from './orphans.js';

export interface Plan {
  /**
   * The words of a sweep's `removedBy`: jobs by `age`, `count` and `cap`; where there are any, the `thing`s that go with them or
   * are due, and `file`s that nobody owns. Of jobs the bytes are the length of their texts.
   */
  readonly removes: {
    readonly [kind: string]: { readonly count: number; readonly bytes: number; readonly sample: readonly string[] };
  };
  /**
   * Finished jobs that are held now: no rule looks at them, whichever would take them. The sample has those first whose hold
   * ends first, and of one end those first that were enqueued first.
   */
  readonly held: { readonly count: number; readonly bytes: number; readonly sample: readonly string[] };
  readonly policy: CleanupPolicy;
}

const pageLimit = 1_000;
const sampleMax = 10;
const tendedMax = 500;
/** A store that says without end that there is more to tend does not keep a plan from its answer. */
const tendingsMax = 10_000;
const untended: ReadonlySet<Code> = new Set(['STORE_READONLY', 'STORE_FULL', 'RESULT_UNKNOWN']);

export interface PlanParts {
  readonly store: Store;
  readonly system: System;
  readonly finalizer: Finalizer;
}

/**
 * The sweep tends before it selects: a hold that is over is lifted, a job past its ttl ends as expired, and then the rules see
 * them. So the plan tends, too. That is no part of the cleanup: every claim, every worker and the rhythm of tending do the
 * same at any moment, nothing is removed that they would not remove, and what callers see of a job stays as it was.
 */
export async function planOn(parts: PlanParts, policy: CleanupPolicy): Promise<Plan> {
  const { store, system, finalizer } = parts;
  await tendAll(store, system);
  const sums = { age: empty(), count: empty(), cap: empty(), held: empty(), thing: empty(), file: empty() };
  const { ofOwner, ofDue } = foresightOn(store, system, finalizer);
  /** Whose things are told already. */
  const owners = new Set<string>();
  let staying = 0;
  const addThings = (records: readonly StoredJob[]): void => {
    for (const record of records) addOne(sums.thing, { id: record.id, bytes: finalizer.sizeOf(record) });
  };
  for await (const page of pagesOf(store, system, () => ({ cleanup: policy, staying }))) {
    for (const kind of ['age', 'count', 'cap', 'held'] as const) add(sums[kind], page[kind]);
    for (const owner of page.owing) {
      owners.add(owner.id);
      const { stays, things } = await ofOwner(owner.id);
      addThings(things);
      if (!stays) continue;
      staying += 1;
      takeBack(sums[owner.rule], owner);
    }
    const due = await ofDue(page.dueThings);
    addThings(due.filter(({ ownedBy }) => !owners.has(ownedBy!)));
  }
  for await (const file of orphansOn(store, finalizer)) addOne(sums.file, file);
  const { age, count, cap, held, thing, file } = sums;
  // What is no job is only told where there is some, as in the report of a sweep.
  const beside = { ...(thing.count > 0 && { thing }), ...(file.count > 0 && { file }) };
  return { removes: { age, count, cap, ...beside }, held, policy };
}

/**
 * By which rule a cleanup takes a job whose age is not over; null: by none. The same pages are read as by a plan, until the job
 * is met: those of its own part alone where nothing is capped.
 */
export async function ruleOn(parts: PlanParts, policy: CleanupPolicy, id: string): Promise<RetentionRule | null> {
  const { store, system, finalizer } = parts;
  await tendAll(store, system);
  const { ofOwner } = foresightOn(store, system, finalizer);
  let staying = 0;
  for await (const page of pagesOf(store, system, () => ({ cleanup: policy, staying, id }))) {
    if (page.takenBy !== null) return page.takenBy;
    for (const owner of page.owing) if ((await ofOwner(owner.id)).stays) staying += 1;
  }
  return null;
}

type Asked = Pick<PlanRequest, 'cleanup' | 'staying' | 'id'>;

/** Each page is asked for with what is known by then. */
async function* pagesOf(store: Store, system: System, asked: () => Asked): AsyncGenerator<PlanPage> {
  for (let cursor: string | null = null; ; ) {
    const page: PlanPage = await store.readPlan({ ...asked(), cursor, limit: pageLimit });
    yield page;
    if (page.next === null) return;
    cursor = page.next;
    await nextTurn(system);
  }
}

/** A store that cannot be written now still says what is in it; one that does not answer is asked for that, and says so itself. */
async function tendAll(store: Store, system: System): Promise<void> {
  try {
    for (let n = 0; n < tendingsMax && (await tendOnce(store)); n++) await nextTurn(system);
  } catch (error) {
    if (!(error instanceof LastoutError && untended.has(error.code))) throw error;
  }
}

/** True: there is more. To tend twice is to tend once, so an answer that was lost is asked for again. */
async function tendOnce(store: Store): Promise<boolean> {
  const tend = async (): Promise<boolean> => (await store.sweep({ limit: tendedMax, cleanup: null })).more;
  return tend().catch((error: unknown) => (isUnknown(error) ? tend() : Promise.reject(error as Error)));
}

function nextTurn(system: System): Promise<void> {
  return new Promise((resolve) => system.soon(resolve));
}

interface Sum {
  count: number;
  bytes: number;
  sample: string[];
}

function add(sum: Sum, { count, bytes, sample }: PlanPart): void {
  sum.count += count;
  sum.bytes += bytes;
  sum.sample.push(...sample.slice(0, sampleMax - sum.sample.length));
}

function addOne(sum: Sum, { id, bytes }: { readonly id: string; readonly bytes: number }): void {
  add(sum, { count: 1, bytes, sample: [id] });
}

function takeBack(sum: Sum, { id, bytes }: PlannedOwner): void {
  sum.count -= 1;
  sum.bytes -= bytes;
  sum.sample = sum.sample.filter((other) => other !== id);
}

function empty(): Sum {
  return { count: 0, bytes: 0, sample: [] };
}
