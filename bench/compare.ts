/** Runs the plan: one measurement after the other, each in a process of its own, in an emptied store. */
import type { Result } from './cell.js';
import { measureApart } from './child.js';
import { type Cell, cells, type Store } from './contender.js';
import { installPeers, peerVersions } from './peers.js';
import { moduleOf } from './places.js';
import { boards, type Entrant, type Step } from './plan.js';
import { quantileOf } from './quantile.js';
import { type Server, type ServerOptions, serversOnDemand } from './servers.js';

/** One number of a table, as often as it was measured. */
export interface Measured {
  readonly board: string;
  readonly cell: Cell;
  readonly entrant: string;
  readonly kind: Entrant['kind'];
  readonly rounds: readonly Round[];
}

export interface Round {
  readonly round: number;
  /** Jobs per second. */
  readonly rate: number;
  readonly jobs: number;
  readonly seconds: number;
  /** µs of CPU per job. */
  readonly client: number;
  /** Null where there is no server, or none whose processes can be seen. */
  readonly server: number | null;
  /** Milliseconds; latency only. */
  readonly p50: number | null;
  readonly p99: number | null;
  readonly samples: number;
  /** Why there is no number. */
  readonly error: string | null;
}

export interface Report {
  readonly measured: readonly Measured[];
  readonly servers: Readonly<Partial<Record<Store, string>>>;
  readonly versions: Readonly<Record<string, string>>;
  readonly seconds: number;
}

/** What a measurement takes besides the measured time: a process, an empty store, a warm-up, jobs to drain. */
const overheadSeconds = 1.5;
const limitMs = 90_000;

export async function compare(steps: readonly Step[], options: ServerOptions): Promise<Report> {
  const startedAt = performance.now();
  const elapsed = (): number => (performance.now() - startedAt) / 1_000;
  if (steps.some(({ entrant }) => entrant.kind === 'peer')) installPeers();
  const total = steps.reduce((sum, { seconds }) => sum + seconds + overheadSeconds, 0);
  console.log(`${steps.length} measurements, about ${Math.ceil(total / 60)} minutes.`);
  const servers = serversOnDemand(options);
  const rounds = new Map<string, Round[]>();
  try {
    for (const [index, step] of steps.entries()) {
      const { board, cell, entrant, round } = step;
      const result = await once(step, await servers.of(board.store));
      const key = [board.id, cell, entrant.name].join('|');
      rounds.set(key, [...(rounds.get(key) ?? []), result]);
      const left = (elapsed() / (index + 1)) * (steps.length - index - 1);
      console.log(
        `${`${index + 1}/${steps.length}`.padStart(9)}  ${clock(left)} left  round ${round}  ` +
          `${board.id.padEnd(13)}  ${cell.padEnd(10)}  ${entrant.name.padEnd(26)}  ${shown(result)}`,
      );
    }
    return { measured: collected(rounds), servers: servers.about(), versions: peerVersions(), seconds: elapsed() };
  } finally {
    await servers.stop();
  }
}

export async function once({ board, cell, entrant, round, seconds }: Step, server: Server): Promise<Round> {
  try {
    const at = await server.empty();
    const order = { module: moduleOf(entrant), where: { store: board.store, at, setup: entrant.setup }, cell, seconds };
    const result = await measureApart({ ...order, serverPid: server.pid, profile: null }, limitMs + seconds * 5_000);
    return roundOf(round, result, server.pid !== null);
  } catch (error) {
    const none = { rate: 0, jobs: 0, seconds: 0, client: 0, server: null, p50: null, p99: null, samples: 0 };
    return { round, ...none, error: (error as Error).message };
  }
}

function roundOf(round: number, result: Result, hasServer: boolean): Round {
  const { jobs, ms, clientMicroseconds, serverMicroseconds } = result;
  const { samples } = result;
  const quantile = (part: number): number | null => (samples.length === 0 ? null : quantileOf(samples, part));
  return {
    round,
    rate: (jobs / ms) * 1_000,
    jobs,
    seconds: ms / 1_000,
    client: clientMicroseconds / jobs,
    server: hasServer ? serverMicroseconds / jobs : null,
    p50: quantile(0.5),
    p99: quantile(0.99),
    samples: samples.length,
    error: null,
  };
}

function collected(rounds: ReadonlyMap<string, readonly Round[]>): Measured[] {
  const all: Measured[] = [];
  for (const board of boards) {
    for (const { name, kind } of board.entrants) {
      for (const cell of cells) {
        const own = rounds.get([board.id, cell, name].join('|'));
        if (own) all.push({ board: board.id, cell, entrant: name, kind, rounds: own });
      }
    }
  }
  return all;
}

function shown({ rate, client, server, p50, p99, error }: Round): string {
  if (error !== null) return `failed: ${error.split('\n')[0]!.slice(0, 200)}`;
  if (p50 !== null && p99 !== null) return `p50 ${p50.toFixed(3)} ms, p99 ${p99.toFixed(3)} ms`;
  const cpu = server === null ? client.toFixed(1) : `${client.toFixed(1)} + ${server.toFixed(1)}`;
  return `${Math.round(rate).toLocaleString('en').padStart(10)}/s  ${cpu} µs`;
}

function clock(seconds: number): string {
  return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;
}
