/**
 * Processes at work whose connections break in every way, or whose server goes down and comes back. What was
 * acknowledged is there in the end, nothing is settled twice, and work goes on within five seconds.
 */
import { expect, onTestFinished } from 'vitest';
import { type Code, open, type Queue } from '../../src/index.js';
import { createSystem } from '../../src/system.js';
import { expectNothingLeft } from '../../src/testing/index.js';
import type { StoreFactory } from '../../src/core/store.js';
import { drain, everyJob, expectTrueCounts } from '../crash/afterwards.js';
import { compilePrograms } from '../programs.js';
import { Fleet, type Member, pause, until } from '../crash/fleet.js';
import { type Evidence, judge } from '../crash/judge.js';
import { instant, readLedgers } from '../crash/ledger.js';
import type { WorkerOrder } from '../crash/worker.js';
import { temporaryFolder } from '../engines.js';
import { type Fault, kindsOfFaults, Proxy } from './proxy.js';
import { Progress } from './progress.js';
import { type Protocol, type Write, writes } from './protocol.js';

/** Of each kind; `npm run crash` asks for more. */
export const faultsMin = Number(process.env.LASTOUT_FAULTS ?? 20);
export const timeout = 180_000 + faultsMin * 20_000;
const resumeMs = 5_000;
const workers = 4;
const producers = 2;
/** What callers are told while the store cannot be reached. */
const outages: readonly Code[] = ['STORE_UNAVAILABLE', 'RESULT_UNKNOWN'];
const order: WorkerOrder = {
  types: ['plain', 'slow', 'flaky', 'keyed', 'skipped', 'quick'],
  concurrency: 4,
  maxStalls: 1_000,
};

export interface Place {
  readonly name: string;
  readonly url: string;
  readonly port: number;
  readonly protocol: Protocol;
  readonly factory: StoreFactory;
  /** How many connections the server has. */
  connections(): Promise<number>;
  readonly connectionsPerProcess: number;
}

interface Part {
  readonly member: Member;
  readonly proxy: Proxy;
  readonly progress: Progress;
}

interface Load {
  readonly place: Place;
  readonly fleet: Fleet;
  readonly queue: Queue;
  readonly parts: readonly Part[];
  /** How long it took to go on, by what had happened. */
  readonly times: Map<string, number[]>;
}

/** Workers and producers, each behind a wire of its own. */
async function startLoad(place: Place): Promise<Load> {
  const { url, port, protocol, factory } = place;
  const context = { system: createSystem(), namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY };
  const store = await factory.open(context);
  onTestFinished(() => store.close());
  const fleet = new Fleet({ programs: compilePrograms(), folder: temporaryFolder(), url, store, seed: 20_300_101 });
  onTestFinished(async () => {
    fleet[Symbol.dispose]();
    await Promise.all(fleet.members.map(({ exited }) => exited));
  });
  const queue = await open(url);
  onTestFinished(async () => void (await queue.close()));
  const parts: Part[] = [];
  for (let i = 0; i < workers + producers; i++) {
    const proxy = await Proxy.before(port, protocol);
    onTestFinished(() => proxy[Symbol.asyncDispose]());
    const by = proxy.urlFor(url);
    const member = i < workers ? fleet.startWorker(order, by) : fleet.startProducer(by, outages);
    const progress = new Progress(fleet, member);
    onTestFinished(() => progress[Symbol.dispose]());
    parts.push({ member, proxy, progress });
  }
  await until('everybody is at work', () => parts.every(({ progress }) => progress.steps > 0));
  return { place, fleet, queue, parts, times: new Map() };
}

const resumed = ({ progress }: Part, what: string): Promise<number> => progress.resumed(what, resumeMs * 4);

function note({ times }: Load, what: string, ms: number): void {
  times.set(what, [...(times.get(what) ?? []), ms]);
}

/** Every process meets every kind in turn, independently of the others. */
export async function breakWires(place: Place): Promise<void> {
  const load = await startLoad(place);
  const { fleet, parts, times } = load;
  const rounds = Math.ceil(faultsMin / parts.length);
  const meet = async (part: Part, kind: Fault): Promise<void> => {
    await pause(fleet.random.below(300));
    await part.proxy.inflict(kind);
    note(load, kind, await resumed(part, kind));
    // A server notices a silent loss only after hours; hundreds of them would use up all its connections.
    part.proxy.forget();
  };
  await Promise.all(
    parts.map(async (part, index) => {
      for (let done = 0; done < rounds * kindsOfFaults.length; done++)
        await meet(part, kindsOfFaults[(done + index) % kindsOfFaults.length]!);
    }),
  );
  // Lost connections were replaced, not added to: this process has two stores open, and asks by one more connection.
  const most = place.connectionsPerProcess * (parts.length + 2) + 1;
  await until('the server has no more connections than before', async () => (await place.connections()) <= most);
  expect(await judged(load, new Set())).toEqual([]);
  for (const kind of kindsOfFaults) expect(times.get(kind)?.length ?? 0, kind).toBeGreaterThanOrEqual(faultsMin);
  expectLostWrites(place, parts);
}

/** A lost answer proves something only where the server had done what it was asked. */
function expectLostWrites({ name }: Place, parts: readonly Part[]): void {
  const lost = parts.flatMap(({ proxy }) => proxy.lost);
  const countOf = (write: Write): number => lost.filter((one) => one === write).length;
  const told = writes.map((write) => `${countOf(write)} × ${write}`);
  console.log(`${name}: answers lost of writes that were done: ${told.join(', ')}`);
  expect(lost.length).toBeGreaterThanOrEqual(faultsMin);
  for (const write of ['insert', 'settle'] as const)
    expect(countOf(write), write).toBeGreaterThanOrEqual(faultsMin / 4);
}

/** The server goes away under everybody's feet, and comes back. `mayLoseMs`: what it does not promise to keep. */
export async function restarts(
  place: Place,
  server: { down(): Promise<void>; up(): Promise<void> },
  mayLoseMs = 0,
): Promise<void> {
  const load = await startLoad(place);
  const { fleet, parts } = load;
  /** What was acknowledged before it may be written down, and acted on, until everybody has gone on. */
  const outages: { readonly from: number; readonly to: number }[] = [];
  for (let done = 0; done < faultsMin; done++) {
    await pause(200 + fleet.random.below(300));
    const from = instant();
    await server.down();
    await pause(fleet.random.below(300));
    await server.up();
    const all = await Promise.all(parts.map((part) => resumed(part, 'restart'))).catch(async (error: unknown) => {
      throw new Error(`${String(error)} ${done + 1}; ${await whereIsWork(load)}`);
    });
    note(load, 'restart', Math.max(...all));
    outages.push({ from: from - mayLoseMs * 1_000, to: instant() });
  }
  const isExcused = (at: number): boolean => mayLoseMs > 0 && outages.some(({ from, to }) => from <= at && at <= to);
  const lost = lostOf(load.fleet, await everyJob(load.queue)).filter(({ at }) => isExcused(at));
  const faults = await judged(load, new Set(lost.map(({ id }) => id)), isExcused);
  const again = lostEnds(load.fleet, await everyJob(load.queue)).filter(({ at }) => isExcused(at));
  if (mayLoseMs > 0)
    console.log(
      `${place.name}: ${lost.length} acknowledged jobs and ${again.length} endings were lost in ${faultsMin} kills, by its policy`,
    );
  expect(faults.filter((fault) => !again.some(({ id }) => fault.includes(id)))).toEqual([]);
}

/** For whoever reads why it did not go on. */
async function whereIsWork({ queue, parts }: Load): Promise<string> {
  const steps = parts.map(({ member, progress }) => `${member.name} ${progress.steps}`);
  return `steps: ${steps.join(', ')}; jobs: ${JSON.stringify((await queue.stats()).total)}`;
}

/** Ends that were acknowledged and that the store does not know: the job ran again, or another one had taken its slot. */
function lostEnds({ ledgers }: Fleet, jobs: Evidence['jobs']): { readonly id: string; readonly at: number }[] {
  const there = new Map(jobs.map((job) => [job.id, job]));
  const lines = readLedgers(ledgers).flatMap((ledger) => ledger.lines);
  const refused = new Set(lines.flatMap((line) => (line.line === 'refused' ? [`${line.id} ${line.epoch}`] : [])));
  return lines.flatMap((line) => {
    if (line.line !== 'end' || line.how !== 'value' || refused.has(`${line.id} ${line.epoch}`)) return [];
    const job = there.get(line.id);
    return !job || (job.state === 'completed' && job.epoch === line.epoch) ? [] : [line];
  });
}

function lostOf({ ledgers }: Fleet, jobs: Evidence['jobs']): { readonly id: string; readonly at: number }[] {
  const there = new Set(jobs.map(({ id }) => id));
  const lines = readLedgers(ledgers).flatMap((ledger) => ledger.lines);
  return lines.flatMap((line) => (line.line === 'acked' && !there.has(line.id) ? [line] : []));
}

/** What the judge finds, besides what is excused. */
async function judged(
  { place, fleet, queue, parts, times }: Load,
  excused: ReadonlySet<string>,
  mayBeLost: Evidence['mayBeLost'] = () => false,
): Promise<string[]> {
  await fleet.close(parts.flatMap(({ member }) => (member.order === null ? [member] : [])));
  await drain(queue);
  await fleet.close(fleet.members);
  const jobs = await everyJob(queue);
  const { faults, figures } = judge({ ledgers: readLedgers(fleet.ledgers), jobs, mayBeLost });
  const told = [...times].map(
    ([what, list]) => `${list.length} × ${what}, resumed after ${Math.round(Math.max(...list))} ms at most`,
  );
  console.log(`${place.name}: ${told.join('; ')}; ${JSON.stringify(figures)}`);
  expect(fleet.crashes).toEqual([]);
  expect(Math.max(...[...times.values()].flat())).toBeLessThan(resumeMs);
  await expectNothingLeft(queue);
  await expectTrueCounts(queue, jobs);
  return faults.filter((fault) => ![...excused].some((id) => fault.includes(id)));
}
