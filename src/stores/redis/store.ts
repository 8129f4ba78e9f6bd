/** The verbs: each is one call of a script, which is one step. What goes in and comes out is put into words here. */
import type { Ending } from '../../core/ending.js';
import type { QueueLimits } from '../../core/limits.js';
import { noTransactions } from '../../core/refusal.js';
import type { State } from '../../core/job.js';
import {
  type Claimed,
  type ClaimRequest,
  type MoveOutcome,
  noFilter,
  type OverduePage,
  type SettleAnswer,
  type Settlement,
  type Store,
  type StoredJob,
  type SweepRequest,
  type SweptInTerm,
  type Term,
} from '../../core/store.js';
import type { StandingFence, SubjectFence } from '../../core/subject.js';
import { cleanupArgs, cursorOf, filterArgs, list, moveText, type Value } from './args.js';
import type { Args } from './connection.js';
import { isLostData } from './errors.js';
import { hintsIn, stalledIn } from '../../core/hints.js';
import { insertAnswers, insertArgs, type InsertReply, jobArgs, printsOf, refusalOf } from './insert.js';
import type { RedisParts } from './parts.js';
import { readsOn } from './read.js';
import { cancelError, claimedPlain, jobIn, reasonIn, shapesIn, type View } from './rows.js';
import { scripts } from './scripts.js';
import { type SweepReply, sweptIn, termIn } from './sweep.js';
import { talliesIn, type TallyLine } from './tally.js';
import { toldOf } from '../../core/told.js';

export type RedisVerbs = Omit<Store, 'engine' | 'traits' | 'durability' | 'subscribe' | 'check' | 'close'>;

export async function redisVerbs(parts: RedisParts): Promise<RedisVerbs> {
  const { call, context, mark, give } = parts;
  const { system } = context;
  const clock = (): Value => system.givenNow() ?? '';
  const cap: Value = context.maxStoredJobs === Number.POSITIVE_INFINITY ? '' : context.maxStoredJobs;
  /** The data that our limits were written into, and when; '' where we have none. */
  let limited = '';
  const changeIn = (into: string, script: keyof typeof scripts, args: Args): Promise<unknown> =>
    call(scripts[script], [clock(), into, parts.sender, cap, ...args]);
  async function change(script: keyof typeof scripts, args: Args): Promise<unknown> {
    try {
      return await changeIn(limited, script, args);
    } catch (error) {
      if (!isLostData(error)) throw error;
    }
    await keepLimits();
    return changeIn(limited, script, args);
  }
  const look = (script: keyof typeof scripts, args: Args): Promise<unknown> =>
    call(scripts[script], [clock(), ...args]);
  const tell = (line: string): void => {
    if (line === '') return;
    give(hintsIn(line));
    const stalled = stalledIn(line);
    if (stalled.length > 0) context.stalled?.(stalled);
  };
  /** Limits hold for every process from the moment one of them is opened with them. Who changes nothing writes nothing. */
  async function keepLimits(): Promise<void> {
    if (!context.limits?.size) return;
    const born = await mark.read();
    const [line, at] = (await changeIn('', 'keepLimits', limitsArgs(context.limits))) as [string, string];
    tell(line);
    limited = `${born},${at}`;
  }
  async function sweepAs(term: Term | null, { limit, cleanup }: SweepRequest): Promise<SweptInTerm> {
    const rules = cleanup ? cleanupArgs(cleanup) : ['', '', 0];
    const reply = await change('sweep', [limit, ...rules, term?.holder ?? '', term?.ttlMs ?? '']);
    const [line, ...swept] = reply as [string, ...SweepReply];
    tell(line);
    return sweptIn(swept);
  }
  async function fence(subject: string, how: SubjectFence | null): Promise<StandingFence | null> {
    const error = how === null ? '' : cancelError(how.reason);
    const [at, until] = (await change('pauseSubject', [subject, how?.forMs ?? '', error])) as [string?, string?];
    return at === undefined ? null : { at: Number(at), until: Number(until) };
  }

  const verbs: RedisVerbs = {
    async insert(jobs, { atomic, tx }) {
      if (tx !== undefined) throw noTransactions('redis');
      if (jobs.length === 0) return [];
      for (let prints: ReadonlyMap<string, string> = new Map(); ; ) {
        const reply = (await change('insert', insertArgs(jobs, atomic, prints))) as InsertReply;
        if (reply[0] === 'prints') prints = printsOf(reply);
        else if (reply[0] === 'refused') throw refusalOf(reply);
        else tell(reply[1]);
        if (reply[0] === 'plain' || reply[0] === 'done') return insertAnswers(reply, jobs);
      }
    },
    async claim(request) {
      const [line, claimed] = (await change('claim', claimArgs(request))) as [string, ClaimReply];
      tell(line);
      return claimedIn(claimed, request);
    },
    async extend({ owner, leaseMs, claims, card }) {
      const args: Value[] = [owner, leaseMs, card ? JSON.stringify(card) : '', claims.length];
      for (const { epoch, ids, started } of claims) args.push(epoch, ...list(ids), ...list(started));
      const [lost, cancelled] = (await change('extend', args)) as [string[], string[]];
      return { lost, cancelled: pairsIn(cancelled).map(([id, error]) => ({ id, reason: reasonIn(error)! })) };
    },
    async settle({ owner, settlements, started, next }) {
      const args: Value[] = [owner];
      const places = settleArgs(args, settlements);
      startedArgs(args, started);
      if (next) args.push('1', ...claimArgs(next));
      else args.push('0');
      const [line, answers, claimed] = (await change('settle', args)) as [string, string, ClaimReply | null];
      tell(line);
      return { answers: answersIn(answers, places), claimed: next && claimedIn(claimed!, next) };
    },
    async sweep(request) {
      const { term: _, ...swept } = await sweepAs(null, request);
      return swept;
    },
    sweepInTerm: sweepAs,
    endTerm: async (holder, entry) => termIn((await change('closeTerm', [holder, entry])) as number),
    async move({ filter, move, dryRun, cursor, limit }) {
      const newIds = move.kind === 'retry' ? move.newIds : [];
      const copies = (move.kind === 'retry' && move.copies) || null;
      const copied = copies && Object.entries(copies).flatMap(([id, { newId, input }]) => [id, newId, input]);
      const args = [+dryRun, moveText(move), ...list(newIds), ...list(copied), ...filterArgs(filter, cursor, limit)];
      const reply = await (dryRun ? look('dryMove', args) : change('move', args));
      const [line, next, items] = reply as [string, string | null, MoveItem[]];
      tell(line);
      return {
        items: items.map(([id, outcome, newId]) => ({ id, outcome, ...(newId !== null && { newId }) })),
        next: cursorOf(next),
      };
    },
    async pause(queue, paused) {
      tell((await change('pause', [queue ?? '*', +paused])) as string);
    },
    fence: async (subject, how) => (await fence(subject, how))!,
    unfence: (subject) => fence(subject, null),
    async find({ filter, cursor, limit }) {
      return foundIn((await look('find', filterArgs(filter, cursor, limit))) as FoundReply);
    },
    async tally({ cleanupIntervalMs, jobRetentionMs, useCompletedTime }) {
      const reply = await look('tally', [cleanupIntervalMs, jobRetentionMs, +useCompletedTime]);
      const [queues, paused, overdue] = reply as [TallyLine[], number, number];
      return { queues: talliesIn(queues), paused: paused === 1, overdue };
    },
    ...readsOn(look),
    readIdentity: () => parts.identity.read(),
    async readOverdue({ types, ids, cursor, limit }) {
      const filter = { ...noFilter, states: live, types, ids };
      const reply = await look('readOverdue', filterArgs(filter, cursor, limit));
      const [next, shapeList, views, info] = reply as [...FoundReply, string];
      return { doubt: await parts.doubtOf(info), ...foundIn([next, shapeList, views]) };
    },
    async note(owner, notes) {
      const args: Value[] = [owner, notes.length];
      for (const { id, epoch, progress, lines } of notes) {
        args.push(id, epoch, progress ?? '', lines.length);
        for (const { message, fields } of lines) args.push(message, fields === null ? '' : `=${fields}`);
      }
      const [line, answers] = (await change('note', args)) as [string, string];
      tell(line);
      return answersIn(answers);
    },
  };
  await keepLimits();
  return verbs;
}

const live: readonly State[] = ['pending', 'processing'];

type FoundReply = [next: string | null, shapes: string[], views: View[]];

function foundIn([next, shapeList, views]: FoundReply): Pick<OverduePage, 'jobs' | 'next'> {
  const shapes = shapesIn(shapeList);
  return { jobs: views.map((view) => jobIn(view, shapes)), next: cursorOf(next) };
}

function limitsArgs(limits: ReadonlyMap<string, QueueLimits>): Value[] {
  const args: Value[] = [limits.size];
  for (const [queue, wanted] of limits) args.push(queue, limitsText(wanted));
  return args;
}

function limitsText({ maxPending, concurrency, rate }: QueueLimits): string {
  if (maxPending === null && concurrency === null && rate === null) return '';
  return JSON.stringify({
    ...(maxPending !== null && { maxPending }),
    ...(concurrency !== null && { concurrency }),
    ...rate,
  });
}

function pairsIn(flat: readonly string[]): [string, string][] {
  return Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i]!, flat[2 * i + 1]!]);
}

function claimArgs({ owner, slots, ahead, leaseMs, maxStalls, types, queues }: ClaimRequest): Value[] {
  return [owner, slots, ahead, leaseMs, maxStalls, ...list(types), ...list(queues)];
}

type MoveItem = [id: string, outcome: MoveOutcome, newId: string | null];

type ClaimReply = [
  epoch: string,
  at: string,
  nextDueInMs: string,
  more: number,
  shapes: string[],
  ids: string,
  /** Parcels of plain jobs, with NUL between them, and views of others. */
  jobs: (string | View)[],
];

function claimedIn(
  [epochText, atText, nextDue, more, shapeList, ids, jobs]: ClaimReply,
  request: ClaimRequest,
): Claimed {
  const epoch = Number(epochText);
  const at = Number(atText);
  const shapes = shapesIn(shapeList);
  const hold = { epoch, at, dueAt: at + request.leaseMs };
  const names = ids.split(',');
  const stored: StoredJob[] = [];
  for (const job of jobs) {
    if (typeof job !== 'string') stored.push(jobIn(job, shapes));
    else for (const text of job.split('\0')) stored.push(claimedPlain(names[stored.length]!, text, shapes, hold));
  }
  return { epoch, at, jobs: stored, nextDueInMs: nextDue === '-1' ? null : Number(nextDue), more: more === 1 };
}

const answerNames: { readonly [letter: string]: SettleAnswer } = { o: 'ok', s: 'STALE_CLAIM', a: 'ALREADY_SETTLED' };

/** `places`: where each answer belongs; without it, in the order in which they came. */
function answersIn(letters: string, places?: readonly number[]): SettleAnswer[] {
  const answers = new Array<SettleAnswer>(letters.length);
  for (let i = 0; i < letters.length; i++) answers[places ? places[i]! : i] = answerNames[letters[i]!]!;
  return answers;
}

interface Run {
  readonly epoch: number;
  readonly ids: string[];
  readonly results: string[];
  readonly places: number[];
}

/**
 * Values that were returned go in runs, one per claim, and the others behind them, each by itself. `order` is where their
 * answers belong. A result with a NUL in it could not be told from what follows it; where jobs follow an ending, or one job
 * is spoken of twice, it matters who comes first, and then nothing goes in runs.
 */
function settleArgs(args: Value[], settlements: readonly Settlement[]): readonly number[] {
  const runs = new Map<number, Run>();
  const others: number[] = [];
  let run: Run | undefined;
  for (let index = 0; index < settlements.length; index++) {
    const { id, epoch, ending, memo, then } = settlements[index]!;
    if (ending.kind !== 'complete' || memo !== undefined || then?.length || ending.result.includes('\0')) {
      others.push(index);
      continue;
    }
    if (run?.epoch !== epoch) run = runs.get(epoch);
    if (!run) runs.set(epoch, (run = { epoch, ids: [], results: [], places: [] }));
    run.ids.push(id);
    run.results.push(ending.result);
    run.places.push(index);
  }
  if (runs.size + others.length > 1 && orderMatters(settlements)) {
    args.push(0, settlements.length);
    for (const settlement of settlements) settlementArgs(args, settlement);
    return settlements.map((_, index) => index);
  }
  args.push(runs.size);
  for (const { epoch, ids, results } of runs.values()) args.push(epoch, ids.length, ids.join(','), results.join('\0'));
  args.push(others.length);
  for (const index of others) settlementArgs(args, settlements[index]!);
  return [...[...runs.values()].flatMap(({ places }) => places), ...others];
}

function orderMatters(settlements: readonly Settlement[]): boolean {
  return (
    settlements.some(({ then }) => then?.length) || new Set(settlements.map(({ id }) => id)).size < settlements.length
  );
}

function settlementArgs(args: Value[], { id, epoch, ending, memo, then }: Settlement): void {
  const text = 'result' in ending ? ending.result : 'error' in ending ? ending.error : '';
  args.push(settlementText(id, epoch, ending, memo), text, then?.length ?? 0);
  for (const job of then ?? []) jobArgs(args, job);
}

function settlementText(id: string, epoch: number, ending: Ending, memo: string | undefined): string {
  return JSON.stringify({
    id,
    epoch: String(epoch),
    kind: ending.kind,
    ...('inMs' in ending && { inMs: ending.inMs }),
    ...('when' in ending && ending.when),
    ...('error' in ending && { told: toldOf(ending) }),
    ...(memo !== undefined && { memo }),
  });
}

function startedArgs(args: Value[], started: readonly { readonly id: string; readonly epoch: number }[]): void {
  const byEpoch = new Map<number, string[]>();
  for (const { id, epoch } of started) {
    const ids = byEpoch.get(epoch);
    if (ids) ids.push(id);
    else byEpoch.set(epoch, [id]);
  }
  args.push(byEpoch.size);
  for (const [epoch, ids] of byEpoch) args.push(epoch, ...list(ids));
}
