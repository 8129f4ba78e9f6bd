/** Why a job is here, why it does not run, when and by which rule it goes; or why it is gone. */
import { readableMessage } from '../core/coded.js';
import { inUnits } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import type { JobError, State } from '../core/job.js';
import { checkId, systemQueue } from '../core/names.js';
import { isLease, isLeftAlone, isLeftBehind, kindOf, leaseErrorOf, leaseStateOf } from '../core/lease-record.js';
import { leftAlive } from '../core/left-alive.js';
import { isGoing, isHeld } from '../core/owned.js';
import { type CleanupPolicy, policyOf, type StoredKeep } from '../core/policy.js';
import {
  farAway,
  type Gone,
  noFilter,
  type RetentionRule,
  type Store,
  type StoredJob,
  type Why,
} from '../core/store.js';
import { foresightOn } from './foresee.js';
import { type PlanParts, ruleOn } from './plan.js';

export interface Explanation {
  readonly id: string;
  readonly state: State | 'removed';
  /** Whole sentences. */
  readonly because: string;
  /** When that changes, as far as it is known. */
  readonly until: Date | null;
  /** What it waits for: `delay`, `paused`, `concurrency`, `rate`, `worker`, `held`, `attention`, `resource`, or the id of the job before it. */
  readonly blockedBy: string | null;
}

/** An explanation of a job, before it is dated and signed. */
interface Told {
  readonly because: string;
  readonly until: number | null;
  readonly blockedBy: string | null;
}

export async function explainOn(parts: PlanParts, cleanup: CleanupPolicy, id: string): Promise<Explanation> {
  const why = await parts.store.readWhy(checkId(id));
  if (why?.job) {
    const { job } = why;
    const now = parts.system.now();
    const goesBy = job.completedAt === null ? null : await whatTakes(parts, job, why, cleanup);
    const told = isLease(job)
      ? explainLease(job, now, await leftAlive(parts.store, id), parts.finalizer.knows(job.type))
      : explainStored(job, why, now, cleanup, goesBy);
    const stored = withHold(job, now, told);
    const stuck = why.owns > 0 ? await whyStuck(parts.store, id, now) : '';
    return signed(id, job.state, { ...stored, because: stored.because + stuck });
  }
  if (why?.gone) return signed(id, 'removed', { because: explainGone(why.gone), until: null, blockedBy: null });
  throw new LastoutError(
    'JOB_NOT_FOUND',
    `There is no job ${id}; it was never here, or it went so long ago that its trace is gone too.`,
  );
}

/** Of what it owns, the newest that could not be ended. */
async function whyStuck(store: Store, ownedBy: string, now: number): Promise<string> {
  const filter = { ...noFilter, ownedBy, states: ['pending' as const, 'processing' as const] };
  const { jobs } = await store.find({ filter, cursor: null, limit: 100 });
  const alive: ReadonlySet<string> = jobs.some(isLease) ? await leftAlive(store) : new Set();
  const textOf = (record: StoredJob): string =>
    isLease(record) ? (isLeftBehind(record, now, alive) ? stuckLeaseText(record) : '') : stuckText(record);
  return jobs.map(textOf).find((text) => text !== '') ?? '';
}

function stuckLeaseText(lease: StoredJob): string {
  const error = leaseErrorOf(lease);
  return ` Its lease ${lease.id} could not be ended yet${error === null ? '' : `: ${firstLine(error.message)}`}.`;
}

function stuckText(record: StoredJob): string {
  const { cancelReason } = record;
  return isGoing(record) && cancelReason !== null
    ? ` It could not go yet: ${firstLine(readableMessage(cancelReason))}.`
    : '';
}

function signed(id: string, state: Explanation['state'], { because, until, blockedBy }: Told): Explanation {
  return { id, state, because, until: until === null || until >= farAway ? null : new Date(until), blockedBy };
}

function explainStored(job: StoredJob, why: Why, now: number, cleanup: CleanupPolicy, goesBy: GoesBy | null): Told {
  if (job.state === 'processing') return explainRunning(job, why, now);
  if (job.state !== 'pending') return explainFinished(job, why, now, cleanup, goesBy);
  if (job.ownedBy !== null) return explainThing(job, job.ownedBy);
  if (job.queue === systemQueue)
    return told(`It is ${job.type} "${job.key}" of the library; it is due ${at(job.dueAt!)}.`, job.dueAt);
  return explainWaiting(job, why, now);
}

// ---- pending ---------------------------------------------------------------------------------------------------

function explainWaiting(job: StoredJob, why: Why, now: number): Told {
  const { place, turnOf, paused, blockedBy, blockedUntil, workers } = why;
  const { queue, type } = job;
  if (job.dueAt! > now)
    return told(
      `${triedText(job)}${stalledText(job)}It is not due before ${at(job.dueAt!)}.${ttlText(job)}`,
      job.dueAt,
      'delay',
    );
  const due = `${triedText(job)}It is due since ${at(job.dueAt!)}, `;
  if (place === 'behind' && turnOf !== null)
    return told(
      `${due}but job ${turnOf} has the turn of its exclusive key "${job.exclusiveKey}".${ttlText(job)}`,
      null,
      turnOf,
    );
  if (paused) return told(`${due}but its queue "${queue}" is paused.${ttlText(job)}`, null, 'paused');
  if (blockedBy === 'concurrency')
    return told(`${due}but as many jobs of queue "${queue}" run as may run at once.${ttlText(job)}`, null, blockedBy);
  if (blockedBy === 'rate')
    return told(
      `${due}but queue "${queue}" has started as many jobs as its rate allows${blockedUntil === null ? '' : ` until ${at(blockedUntil)}`}.${ttlText(job)}`,
      blockedUntil,
      blockedBy,
    );
  if (workers === 0)
    return told(`${due}but no worker takes type "${type}" of queue "${queue}".${ttlText(job)}`, null, 'worker');
  const whose = workers === 1 ? 'the worker that takes' : `one of the ${workers} workers that take`;
  return told(`${due}and waits for a free slot of ${whose} type "${type}".${ttlText(job)}`, job.expiresAt);
}

function triedText({ attempts, maxAttempts, error }: StoredJob): string {
  if (attempts === 0 || error === null) return '';
  const { message } = JSON.parse(error) as JobError;
  return `Attempt ${attempts} of ${maxAttempts} failed: ${firstLine(readableMessage(message))}. `;
}

/** From the second time on, a job that may be what ends its workers waits apart from its neighbours. */
function stalledText({ stalls }: StoredJob): string {
  if (stalls < 2) return '';
  return `Its worker went silent ${stalls} times while it ran: from the second time on it comes back only after a wait of up to half a minute. `;
}

function ttlText({ expiresAt }: StoredJob): string {
  return expiresAt === null ? '' : ` If it has not started by ${at(expiresAt)}, it expires.`;
}

function explainThing(job: StoredJob, owner: string): Told {
  const { type, dueAt, memo } = job;
  const what = type === 'lastout.artifact' ? 'an artifact' : type === 'lastout.temp' ? 'a temporary folder' : type;
  const unfinished = type === 'lastout.artifact' && memo === null ? ', not wholly written yet,' : '';
  if (isGoing(job))
    return told(`It was ${what} of job ${owner}; what is left of it goes with the next sweep.${stuckText(job)}`, dueAt);
  const when = dueAt === null || dueAt >= farAway ? '' : `, or after ${at(dueAt)}`;
  return told(`It is ${what}${unfinished} of job ${owner} and goes before it goes${when}.`, dueAt);
}

/** `isKnown`: this process can end it. What others have in hand is said as it is. */
function explainLease(job: StoredJob, now: number, alive: ReadonlySet<string>, isKnown: boolean): Told {
  const { key, ownedBy, dueAt, completedAt } = job;
  const owner = ownedBy === null ? '' : ` of job ${ownedBy}`;
  const what = `It is a lease${owner} on ${kindOf(job)} "${key}"`;
  const error = leaseErrorOf(job);
  const why = error === null ? '' : `: ${firstLine(error.message)}`;
  switch (leaseStateOf(job, now)) {
    case 'creating':
      return told(`${what}, which is being made. If that is not confirmed by ${at(dueAt!)}, it is destroyed.`, dueAt);
    case 'held':
      return told(`${what}, and is held until ${at(dueAt!)}. Then it is destroyed, unless it is renewed.`, dueAt);
    case 'ending':
      return explainEnding({ job, now, alive, isKnown }, what, why === '' ? '' : `; the last try failed${why}`);
    case 'needs_attention':
      return told(`${what}, and could not be ended${why}. It is tried again ${at(dueAt!)}.`, dueAt, 'attention');
    case 'ended':
      return told(`${what}, and ended ${at(completedAt!)}${why}.`, null);
  }
}

interface Ending {
  readonly job: StoredJob;
  readonly now: number;
  /** Leases that a close has left alive. */
  readonly alive: ReadonlySet<string>;
  readonly isKnown: boolean;
}

function explainEnding({ job, now, alive, isKnown }: Ending, what: string, failed: string): Told {
  const { id, dueAt, state } = job;
  const because = `${what}, and is being ended${failed}.`;
  if (alive.has(id))
    return told(`${because} The queue that leased it was closed before it was gone.`, null, 'attention');
  const kind = kindOf(job);
  const elsewhere = ` This process does not know the kind ${kind}: whoever opened the store with resources: [${kind}] ends it.`;
  if (isLeftAlone(job, now)) {
    const alone = `${because} Nobody who knows its kind has come since ${at(dueAt!)}.`;
    return told(isKnown ? alone : alone + elsewhere, null, 'attention');
  }
  if (!isKnown && state === 'pending' && dueAt! <= now)
    return told(`${what}. Its time was over at ${at(dueAt!)}.${elsewhere}`, null, 'resource');
  return told(because, dueAt);
}

// ---- processing ------------------------------------------------------------------------------------------------

function explainRunning(job: StoredJob, { claim }: Why, now: number): Told {
  const attempt = `attempt ${job.attempts} of ${job.maxAttempts}`;
  const cancel =
    job.cancelAt === null ? '' : ` A cancel was requested ${at(job.cancelAt)}: its handler is told to stop.`;
  if (!claim) return told(`It runs, ${attempt}.${cancel}`, null);
  if (claim.dueAt <= now)
    return told(
      `Worker ${claim.owner} has not been heard of since its claim lapsed ${at(claim.dueAt)}; the job comes back with the next tending.${cancel}`,
      null,
    );
  return told(
    `Worker ${claim.owner} runs it, ${attempt}; its claim holds until ${at(claim.dueAt)}.${cancel}`,
    claim.dueAt,
  );
}

// ---- finished --------------------------------------------------------------------------------------------------

/** The rule by which the next cleanup would take a finished job. */
interface GoesBy {
  readonly rule: RetentionRule;
  /** Something that it owns stays, and so it does. */
  readonly stays: boolean;
}

async function whatTakes(
  parts: PlanParts,
  job: StoredJob,
  { owns }: Why,
  cleanup: CleanupPolicy,
): Promise<GoesBy | null> {
  const { store, system, finalizer } = parts;
  const now = system.now();
  const keep = keepOf(job);
  const { goesAt } = ageRule(job, keep, cleanup);
  const mayGoSooner = keep?.count !== undefined || cleanup.maxStoredJobs < Number.POSITIVE_INFINITY;
  const held = isHeld(job, now);
  let rule: RetentionRule | null = goesAt !== null && goesAt < now ? 'age' : null;
  if (rule === null && mayGoSooner && !held) rule = await ruleOn(parts, cleanup, job.id);
  if (rule === null) return null;
  const mayStay = owns > 0 && !held;
  return { rule, stays: mayStay && (await foresightOn(store, system, finalizer).ofOwner(job.id)).stays };
}

function explainFinished(
  job: StoredJob,
  { owns }: Why,
  now: number,
  cleanup: CleanupPolicy,
  goesBy: GoesBy | null,
): Told {
  const { state, completedAt } = job;
  const keep = keepOf(job);
  const { goesAt, rule } = ageRule(job, keep, cleanup);
  const ended = `It is ${state} since ${at(completedAt!)}. `;
  const things = owns === 1 ? 'one thing' : `${owns} things`;
  const owned = owns === 0 ? '' : ` It owns ${things}, which ${owns === 1 ? 'goes' : 'go'} first.`;
  if (goesBy) {
    const why = {
      age: `${rule}, until ${at(goesAt!)}`,
      count: `of its type and state the newest ${keep?.count} are kept, and it is none of them`,
      cap: `more than ${cleanup.maxStoredJobs} jobs are stored, and it is among the oldest finished ones`,
    }[goesBy.rule];
    if (goesBy.stays)
      return told(
        `${ended}It stays while something that it owns is held, or is for another process to end: ${why}.`,
        null,
      );
    return told(`${ended}It goes with the next cleanup: ${why}.${owned}`, goesBy.rule === 'age' ? goesAt : now);
  }
  const besides = capText(keep, cleanup);
  if (goesAt === null) return told(`${ended}It stays: ${rule}.${besides}${owned}`, null);
  return told(`${ended}It goes after ${at(goesAt)}: ${rule}.${besides}${owned}`, goesAt);
}

function keepOf({ policy, state }: StoredJob): StoredKeep | undefined {
  return policyOf(policy).keep[state as 'completed'];
}

function ageRule(
  { completedAt, createdAt, state, type }: StoredJob,
  keep: StoredKeep | undefined,
  { jobRetentionMs, useCompletedTime }: CleanupPolicy,
): { goesAt: number | null; rule: string } {
  if (keep?.ageMs === null) return { goesAt: null, rule: `keep of type "${type}" says for ever` };
  if (keep?.ageMs !== undefined)
    return {
      goesAt: completedAt! + keep.ageMs,
      rule: `keep of type "${type}" is ${inUnits(keep.ageMs)} for ${state} jobs`,
    };
  const [from, word] = useCompletedTime ? [completedAt!, 'end'] : [createdAt, 'creation'];
  return {
    goesAt: from + jobRetentionMs,
    rule: `jobRetentionMs keeps it for ${inUnits(jobRetentionMs)} from its ${word}`,
  };
}

/** What may remove it sooner. */
function capText(keep: StoredKeep | undefined, { maxStoredJobs }: CleanupPolicy): string {
  const count = keep?.count === undefined ? '' : ` Of its type and state the newest ${keep.count} are kept at most.`;
  const cap =
    maxStoredJobs === Number.POSITIVE_INFINITY ? '' : ` It goes sooner if more than ${maxStoredJobs} jobs are stored.`;
  return count + cap;
}

function withHold(job: StoredJob, now: number, explained: Told): Told {
  const { heldUntil, heldReason, state } = job;
  if (!isHeld(job, now)) return explained;
  const until = heldUntil! >= farAway ? 'it is released' : at(heldUntil!);
  const because = `${explained.because} It is held until ${until} and not removed before: ${firstLine(readableMessage(heldReason ?? ''))}.`;
  const isLive = state === 'pending' || state === 'processing';
  return isLive ? { ...explained, because } : { because, until: heldUntil, blockedBy: 'held' };
}

// ---- removed ---------------------------------------------------------------------------------------------------

const rules: { readonly [why in Gone['why']]: string } = {
  age: 'it was past its retention',
  count: 'newer jobs of its type and state took its place',
  cap: 'more jobs were stored than maxStoredJobs allows, and it was among the oldest finished ones',
  removed: 'somebody removed it by hand',
};

function explainGone({ at: when, why, type, state, queue, reason }: Gone): string {
  const words = reason === null ? '' : `: ${firstLine(readableMessage(reason))}`;
  return `It was a ${state} job of type "${type}" in queue "${queue}" and was removed ${at(when)}: ${rules[why]}${words}.`;
}

function told(because: string, until: number | null, blockedBy: string | null = null): Told {
  return { because, until, blockedBy };
}

function at(ms: number): string {
  return ms >= farAway ? 'never' : new Date(ms).toISOString();
}

function firstLine(text: string): string {
  const line = text.split('\n', 1)[0]!.trim();
  return (line.length > 200 ? `${line.slice(0, 200).toWellFormed()}…` : line).replace(/\.$/, '');
}
