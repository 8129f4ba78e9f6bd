/**
 * Judges a run from what was seen outside the store (the ledgers) and what the store holds in the end. It knows
 * nothing of how a store works, only what was promised:
 *
 *   lost        an acknowledged job is there and has ended as its type says
 *   claims      no two runs of a job under one epoch; later epochs start later, unless the claim was lost by then
 *   settled     exactly one settlement per attempt: the row's epoch and result are those of the run that was accepted,
 *               every other run was refused, or its process was killed before it could know
 *   overlap     a key's next run starts after an accepted run of it has ended
 *   fresh       whoever was told "skipped" sees a run of the key that began after the question
 *   counted     each run is an attempt or a stall
 *   duplicates  no more runs are repeated than the kills and the refusals explain
 */
import type { Job } from '../../src/index.js';
import { attemptsOf, poison, quick, skipped } from './jobs.js';
import type { How, Line, ReadLedger } from './ledger.js';

export type JudgedJob = Pick<
  Job,
  'id' | 'type' | 'state' | 'epoch' | 'attempts' | 'stalls' | 'result' | 'error' | 'deduplicationKey' | 'exclusiveKey'
>;

export interface Evidence {
  readonly ledgers: readonly ReadLedger[];
  /** Every job that the store holds. */
  readonly jobs: readonly JudgedJob[];
  /** Whether the store may have lost by its policy what it acknowledged at this instant; left out: it may lose nothing. */
  readonly mayBeLost?: (at: number) => boolean;
}

export interface Figures {
  readonly jobs: number;
  readonly acked: number;
  readonly runs: number;
  readonly kills: number;
  readonly stops: number;
  readonly blocks: number;
  /** Runs whose claim was over before their word came. */
  readonly refused: number;
  /** Of the refused, those of workers that were neither stopped nor blocked meanwhile: the machine gave them no time for a heartbeat. */
  readonly starved: number;
  /** Runs that neither completed nor used an attempt. */
  readonly duplicates: number;
}

export interface Judgement {
  readonly faults: readonly string[];
  readonly figures: Figures;
}

interface Run {
  readonly id: string;
  readonly type: string;
  readonly epoch: number;
  readonly process: string;
  readonly start: number;
  end: number | null;
  how: How | null;
  /** Refused, or told that it was lost. */
  refused: boolean;
  /** When that was first known. */
  refusedAt: number;
  /** Its process was killed by the test, or by its own job. */
  readonly killed: boolean;
}

/** A process stood still. */
interface Pause {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

interface Case {
  readonly jobs: ReadonlyMap<string, JudgedJob>;
  readonly acks: readonly (Line & { line: 'acked' })[];
  readonly runs: readonly Run[];
  /** In the order of their epochs. */
  readonly runsOf: ReadonlyMap<string, readonly Run[]>;
  readonly kills: readonly string[];
  readonly stops: readonly Pause[];
  readonly blocks: readonly Pause[];
  readonly mayHold: ReadonlyMap<string, number>;
  readonly mayBeLost: (at: number) => boolean;
}

export function judge(evidence: Evidence): Judgement {
  const found = prepare(evidence);
  const rules = [lost, claims, settled, overlap, fresh, counted, duplicates];
  return { faults: rules.flatMap((rule) => rule(found)), figures: figuresOf(found) };
}

function prepare({ ledgers, jobs, mayBeLost = () => false }: Evidence): Case {
  const lines = ledgers.flatMap((ledger) => ledger.lines);
  const kills = lines.flatMap((line) => (line.line === 'kill' ? [line.name] : []));
  const runs = ledgers.flatMap((ledger) => runsIn(ledger, kills.includes(ledger.name)));
  return {
    jobs: new Map(jobs.map((job) => [job.id, job])),
    acks: lines.filter((line) => line.line === 'acked'),
    runs,
    runsOf: group([...runs].sort((a, b) => a.epoch - b.epoch)),
    kills,
    stops: pausesIn(lines, 'stop', 'resume'),
    blocks: pausesIn(lines, 'block', 'unblock'),
    mayHold: new Map(
      ledgers.flatMap(({ name, lines: own }) =>
        own.flatMap((line): [string, number][] => (line.line === 'worker' ? [[name, line.mayHold]] : [])),
      ),
    ),
    mayBeLost,
  };
}

function pausesIn(lines: readonly Line[], begin: 'stop' | 'block', end: 'resume' | 'unblock'): Pause[] {
  const ends = lines.flatMap((line) => (line.line === end ? [line] : []));
  return lines.flatMap((line) => {
    if (line.line !== begin) return [];
    const over = ends.find(({ name, at }) => name === line.name && at >= line.at);
    return [{ name: line.name, from: line.at, to: over?.at ?? Number.POSITIVE_INFINITY }];
  });
}

function runsIn({ name, lines }: ReadLedger, killed: boolean): Run[] {
  const runs: Run[] = [];
  for (const line of lines) {
    if (line.line === 'start') {
      const { id, type, epoch, at } = line;
      runs.push({
        id,
        type,
        epoch,
        process: name,
        start: at,
        end: null,
        how: null,
        refused: false,
        refusedAt: 0,
        killed,
      });
    } else if (line.line === 'end' || line.line === 'lost' || line.line === 'refused') {
      const run = runs.find(({ id, epoch }) => id === line.id && epoch === line.epoch);
      // Claimed ahead and handed back too late: refused without ever having run.
      if (!run) continue;
      if (line.line === 'end') Object.assign(run, { end: line.at, how: line.how });
      else if (!run.refused) Object.assign(run, { refused: true, refusedAt: line.at });
    }
  }
  return runs;
}

function group(runs: readonly Run[]): Map<string, Run[]> {
  const groups = new Map<string, Run[]>();
  for (const run of runs) {
    const known = groups.get(run.id);
    if (known) known.push(run);
    else groups.set(run.id, [run]);
  }
  return groups;
}

const show = ({ id, type, epoch, process: name }: Run): string => `${type} ${id} epoch ${epoch} in ${name}`;

/** Certain to be accepted: its process lived on and heard no refusal, or the row says so. */
function isAccepted({ jobs }: Case, run: Run): boolean {
  const job = jobs.get(run.id);
  if (job?.state === 'completed' && job.epoch === run.epoch) return true;
  return run.how === 'threw' && !run.refused && !run.killed;
}

// ---- the rules --------------------------------------------------------------------------------------------------

function lost({ acks, jobs }: Case): string[] {
  const faults: string[] = [];
  for (const { id, type } of acks) {
    if (!jobs.has(id)) faults.push(`lost: ${type} ${id} was acknowledged and is not in the store`);
  }
  for (const job of jobs.values()) {
    if (!endedByRule(job)) faults.push(`lost: ${job.type} ${job.id} ended ${job.state} (${job.error?.code ?? ''})`);
  }
  return faults;
}

function endedByRule({ state, type, error }: JudgedJob): boolean {
  if (type === poison.name) return state === 'failed' && error?.code === 'STALLED';
  if (state === 'completed') return true;
  // Its worker died, and a newer job had taken its slot by then.
  return type === skipped.name && state === 'cancelled' && error?.code === 'SUPERSEDED';
}

function claims({ runsOf }: Case): string[] {
  const faults: string[] = [];
  for (const runs of runsOf.values()) {
    runs.forEach((run, index) => {
      const earlier = runs[index - 1];
      if (!earlier) return;
      if (earlier.epoch === run.epoch) faults.push(`claims: ${show(run)} has the epoch of a run in ${earlier.process}`);
      // A process may stand still between its claim and the first line of its handler.
      else if (earlier.start > run.start && !earlier.refused && !earlier.killed)
        faults.push(`claims: ${show(earlier)} started after epoch ${run.epoch}`);
    });
  }
  return faults;
}

function settled(found: Case): string[] {
  const faults: string[] = [];
  for (const job of found.jobs.values()) {
    const runs = found.runsOf.get(job.id) ?? [];
    if (job.state === 'completed') {
      const winner = runs.find(({ epoch }) => epoch === job.epoch);
      const told = (job.result as { epoch?: unknown } | null)?.epoch;
      if (!winner) faults.push(`settled: ${job.type} ${job.id} completed under epoch ${job.epoch}, which never ran`);
      else if (winner.how !== 'value') faults.push(`settled: ${show(winner)} completed without returning`);
      else if (winner.refused) faults.push(`settled: ${show(winner)} was refused and is stored all the same`);
      if (told !== job.epoch)
        faults.push(`settled: ${job.type} ${job.id} of epoch ${job.epoch} has the result of ${JSON.stringify(told)}`);
      if (job.attempts !== attemptsOf(job.type))
        faults.push(`settled: ${job.type} ${job.id} took ${job.attempts} settlements, not ${attemptsOf(job.type)}`);
    }
    for (const run of runs) {
      if (run.refused || run.killed || isAccepted(found, run)) continue;
      const said = run.end === null ? 'never ended' : 'ended and was not refused';
      faults.push(`settled: ${show(run)} ${said}, but the job is ${job.state} under epoch ${job.epoch}`);
    }
  }
  return faults;
}

function overlap(found: Case): string[] {
  const byKey = new Map<string, Run[]>();
  for (const run of found.runs) {
    const key = found.jobs.get(run.id)?.exclusiveKey;
    if (key == null) continue;
    byKey.set(key, [...(byKey.get(key) ?? []), run]);
  }
  const faults: string[] = [];
  for (const [key, runs] of byKey) {
    runs.sort((a, b) => a.epoch - b.epoch);
    let ended = Number.NEGATIVE_INFINITY;
    let before: Run | null = null;
    for (const run of runs) {
      if (before && run.start < ended) faults.push(`overlap: ${show(run)} started in ${key} while ${show(before)} ran`);
      // A run whose claim lapsed has no key any more, however long its code goes on.
      if (!isAccepted(found, run) || run.end === null || run.end < ended) continue;
      ended = run.end;
      before = run;
    }
  }
  return faults;
}

function fresh(found: Case): string[] {
  const newest = new Map<string, number>();
  for (const run of found.runs) {
    const key = found.jobs.get(run.id)?.deduplicationKey;
    if (key != null && isAccepted(found, run)) newest.set(key, Math.max(newest.get(key) ?? 0, run.start));
  }
  return found.acks.flatMap(({ id, type, askedAt }) => {
    const key = found.jobs.get(id)?.deduplicationKey;
    if (key == null || (newest.get(key) ?? 0) >= askedAt) return [];
    return [`fresh: ${type} ${id} was acknowledged for ${key}, and no run of it began after the question`];
  });
}

/** What was claimed ahead is no stall, and a worker may die before it tells that it has begun. */
const mayBeUncounted = new Set([quick.name]);

function counted(found: Case): string[] {
  const faults: string[] = [];
  for (const job of found.jobs.values()) {
    const { id, type, attempts, stalls } = job;
    const runs = found.runsOf.get(id)?.length ?? 0;
    if (runs < attempts) faults.push(`counted: ${type} ${id} has ${attempts} attempts and ran ${runs} times`);
    if (runs > attempts + stalls + forgottenRuns(found, job) && !mayBeUncounted.has(type))
      faults.push(`counted: ${type} ${id} ran ${runs} times, with ${attempts} attempts and ${stalls} stalls`);
  }
  return faults;
}

/** Runs of a job whose claim or whose end the store may have lost, so that it knows nothing of them. */
function forgottenRuns({ runsOf, mayBeLost }: Case, { id, epoch }: JudgedJob): number {
  const isForgotten = (run: Run): boolean => mayBeLost(run.start) || (run.end !== null && mayBeLost(run.end));
  return (runsOf.get(id) ?? []).filter((run) => run.epoch !== epoch && isForgotten(run)).length;
}

/** Apart for what is claimed ahead: its workers may hold so much that their kills would explain any other repetition. */
function duplicates(found: Case): string[] {
  return [false, true].flatMap((ahead) => {
    const isOfKind = ({ type }: { readonly type: string }): boolean => mayBeUncounted.has(type) === ahead;
    const isForgotten = ({ id, start }: Run): boolean => !found.jobs.has(id) && found.mayBeLost(start);
    const runs = found.runs.filter((run) => isOfKind(run) && !isForgotten(run));
    const jobs = [...found.jobs.values()].filter(isOfKind);
    const attempts = jobs.reduce((sum, job) => sum + job.attempts, 0);
    const forgotten = jobs.reduce((sum, job) => sum + forgottenRuns(found, job), 0);
    const refused = runs.filter((run) => run.refused).length;
    const ran = new Set(runs.map((run) => run.process));
    const held = found.kills.reduce((sum, name) => sum + (ran.has(name) ? (found.mayHold.get(name) ?? 0) : 0), 0);
    const repeated = runs.length - attempts;
    if (repeated <= held + refused + forgotten) return [];
    return [`duplicates: ${repeated} runs were repeated; ${held} by kills and ${refused} by refusals are explained`];
  });
}

function figuresOf({ jobs, acks, runs, kills, stops, blocks }: Case): Figures {
  const refused = runs.filter((run) => run.refused);
  const whileStopped = ({ process: name, start, refusedAt }: Run): boolean =>
    [...stops, ...blocks].some((stop) => stop.name === name && stop.to > start && stop.from < refusedAt);
  const attempts = [...jobs.values()].reduce((sum, job) => sum + job.attempts, 0);
  return {
    jobs: jobs.size,
    acked: acks.length,
    runs: runs.length,
    kills: kills.length,
    stops: stops.length,
    blocks: blocks.length,
    refused: refused.length,
    starved: refused.filter((run) => !whileStopped(run)).length,
    duplicates: runs.length - attempts,
  };
}
