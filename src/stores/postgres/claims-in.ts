/** Claims and endings between the contract and the functions. */
import type { Ending } from '../../core/ending.js';
import type {
  Claimed,
  ClaimRequest,
  NewJob,
  SettleAnswer,
  Settlement,
  SettleRequest,
  StoredJob,
} from '../../core/store.js';
import type { System } from '../../core/system.js';
import { toldOf } from '../../core/told.js';
import type { Holds } from './holds.js';
import type { Rows } from './run.js';
import { jobIn as newJobIn, Policies } from './jobs-in.js';
import { inOrder, jobIn, plainJobsIn, type Under } from './rows.js';
import { leavings } from './sql/end.js';

/**
 * Where the last claim of a worker stopped. While the table is full of dead rows, because something keeps PostgreSQL from
 * clearing them away, each look from the front reads them all: then most claims go on from here, and a look from the front
 * takes no more than a twentieth of the time.
 */
interface Spot {
  readonly lanes: string;
  readonly lookedAt: number;
  readonly untilMs: number;
  readonly floor: number;
  after: string;
}

const share = 20;
const longestMs = 1_000;

export function createSpots(system: System) {
  const spots = new Map<string, Spot>();
  const many = 1_000;
  return {
    of(request: ClaimRequest): Spot | null {
      const spot = spots.get(request.owner);
      if (!spot) return null;
      if (spot.lanes === lanesOf(request) && system.monotonic() - spot.lookedAt < spot.untilMs) return spot;
      spots.delete(request.owner);
      return null;
    },
    /** After a claim that began at `since`: `after` is null unless the table is full of dead rows. */
    learn(request: ClaimRequest, spot: Spot | null, after: string | null, floor: number, since: number): void {
      if (after === null) return;
      const now = system.monotonic();
      if (spot) spot.after = after;
      else {
        if (spots.size >= many) spots.clear();
        const untilMs = Math.min(longestMs, share * (now - since));
        spots.set(request.owner, { lanes: lanesOf(request), lookedAt: now, untilMs, floor, after });
      }
    },
  };
}

function lanesOf({ types, queues }: ClaimRequest): string {
  return `${types.join()} ${queues?.join() ?? '*'}`;
}

/** The arguments that a claim is made of, as claim_v1 and settle_v1 end with them. */
export function claimArgs(request: ClaimRequest, spot: Spot | null): readonly unknown[] {
  const { types, queues, slots, ahead, leaseMs, maxStalls } = request;
  return [
    types.join(),
    queues?.join() ?? null,
    slots,
    ahead,
    leaseMs,
    maxStalls,
    spot?.after ?? null,
    spot?.floor ?? null,
  ];
}

export const noClaim: readonly unknown[] = [null, null, null, null, null, null, null, null];

/** The last line of an answer. */
export interface StepLine {
  readonly at: number;
  readonly hints: string;
  readonly answers: string;
  readonly after: string | null;
}

export function stepLine(rows: Rows): StepLine {
  const [, at, hints, answers, , , , after] = rows[rows.length - 1] as readonly (string | null)[];
  return { at: Number(at), hints: hints ?? '', answers: answers ?? '', after: after ?? null };
}

export function claimedIn(rows: Rows, leaseMs: number): Claimed {
  const [, atText, , , epochText, nextDue, more] = rows[rows.length - 1] as readonly (string | null)[];
  const at = Number(atText);
  const under: Under = { epoch: Number(epochText ?? 0), at, dueAt: at + leaseMs };
  let jobs: StoredJob[] = [];
  if (rows.length === 2 && rows[0]![0] === 'plain') jobs = plainJobsIn(rows[0]!, under);
  else {
    for (const row of rows.slice(0, -1)) {
      if (row[0] === 'plain') jobs.push(...plainJobsIn(row, under));
      else jobs.push(jobIn(row[1] as string));
    }
    jobs.sort(inOrder);
  }
  return {
    epoch: under.epoch,
    at,
    jobs,
    nextDueInMs: nextDue === null ? null : Number(nextDue),
    more: more === 'true',
  };
}

/** The arguments of settle_v1 that are about endings, and where the plain ones stand in the call. */
export interface EndingsIn {
  readonly args: readonly unknown[];
  readonly plain: readonly number[];
}

export function endingsIn({ settlements, started }: SettleRequest, holds: Holds): EndingsIn {
  const policies = new Policies();
  const asSet = settlements.every(({ then }) => then === undefined || then.length === 0);
  const byEpoch = new Map<number, number[]>();
  const seen = new Set<string>();
  const others: object[] = [];
  settlements.forEach((settlement, index) => {
    if (asSet && isPlain(settlement) && !seen.has(settlement.id)) {
      const list = byEpoch.get(settlement.epoch);
      if (list) list.push(index);
      else byEpoch.set(settlement.epoch, [index]);
    } else others.push(settlementIn(settlement, index, policies));
    seen.add(settlement.id);
  });
  const epochs = [...byEpoch.keys()].sort((a, b) => a - b);
  const plain = epochs.flatMap((epoch) => byEpoch.get(epoch)!);
  const any = plain.length > 0;
  const places = any
    ? placesOf(
        plain.map((index) => settlements[index]!),
        holds,
      )
    : null;
  return {
    plain,
    args: [
      epochsOf([...settlements, ...started]),
      any ? epochs.join() : null,
      any ? epochs.map((epoch) => byEpoch.get(epoch)!.length).join() : null,
      places?.join() ?? null,
      places?.map((place, n) => holds.createdAt(settlements[plain[n]!]!.epoch, place)).join() ?? null,
      any ? plain.map((index) => settlements[index]!.id).join() : null,
      any ? plain.map((index) => (settlements[index]!.ending as { result: string }).result).join('\n') : null,
      others.length > 0 ? JSON.stringify(others) : null,
      started.length > 0 ? JSON.stringify(startedIn(started, holds)) : null,
      policies.text,
    ],
  };
}

/** Null: of one of them it is not known. */
function placesOf(settlements: readonly Settlement[], holds: Holds): number[] | null {
  const places: number[] = [];
  for (const { epoch, id } of settlements) {
    const place = holds.placeOf(epoch, id);
    if (place === null) return null;
    places.push(place);
  }
  return places;
}

function epochsOf(list: readonly { readonly epoch: number }[]): string {
  const epochs = new Set<number>();
  for (const { epoch } of list) epochs.add(epoch);
  return [...epochs].join();
}

/** Lists of results are separated by newlines. */
function isPlain({ ending, memo }: Settlement): boolean {
  return ending.kind === 'complete' && memo === undefined && !ending.result.includes('\n');
}

function settlementIn({ id, epoch, ending, memo, then }: Settlement, index: number, policies: Policies): object {
  return {
    o: index,
    id,
    epoch,
    kind: leavings.indexOf(ending.kind),
    ...endingIn(ending),
    ...(memo !== undefined && { memo }),
    ...(then && then.length > 0 && { followers: then.map((job: NewJob) => newJobIn(job, 0, policies)) }),
  };
}

function endingIn(ending: Ending): object {
  switch (ending.kind) {
    case 'complete':
      return { result: ending.result };
    case 'retry':
      return { in_ms: ending.inMs, error: ending.error, told: toldOf(ending) };
    case 'exhaust':
    case 'fail':
    case 'cancel':
      return { error: ending.error, told: toldOf(ending) };
    case 'snooze':
      return 'inMs' in ending.when ? { in_ms: ending.when.inMs } : { at: ending.when.at };
    case 'release':
      return {};
  }
}

function startedIn(started: SettleRequest['started'], holds: Holds): [number, string][] {
  const byEpoch = new Map<number, string[]>();
  for (const { id, epoch } of started) {
    const begun = byEpoch.get(epoch);
    if (begun) begun.push(begunIn(epoch, id, holds));
    else byEpoch.set(epoch, [begunIn(epoch, id, holds)]);
  }
  return [...byEpoch].map(([epoch, begun]) => [epoch, begun.join()]);
}

/** As begin_jobs takes it. */
export function begunIn(epoch: number, id: string, holds: Holds): string {
  return String(holds.placeOf(epoch, id) ?? `#${id}`);
}

/** `answers` names by place those that are not ok: the plain ones by their place among these, marked with a `p`. */
export function answersIn(answers: string, plain: readonly number[], n: number): SettleAnswer[] {
  const list = new Array<SettleAnswer>(n).fill('ok');
  for (const one of answers === '' ? [] : answers.split(',')) {
    const [place, code] = one.split(':') as [string, SettleAnswer];
    list[place.startsWith('p') ? plain[Number(place.slice(1))]! : Number(place)] = code;
  }
  return list;
}
