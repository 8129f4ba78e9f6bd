/**
 * lastout beside an earlier build of itself: CPU per job of client and server, in turns, in one run. A ratio is taken within
 * a round, between two measurements that follow each other; the median of the rounds counts.
 */
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { once, type Round } from './compare.js';
import { quantileOf } from './quantile.js';
import { planned, type Step } from './plan.js';
import { type ServerOptions, type Servers, serversOnDemand } from './servers.js';

export interface AgainstWish {
  /** A checkout of the earlier version, in which its bench is built. */
  readonly folder: string;
  readonly words: readonly string[];
  readonly rounds: number;
  readonly seconds: number | null;
}

interface Pair {
  readonly now: Round;
  readonly before: Round;
}

/** A cell that is dearer than this is named, and fails the run. */
const mostRatio = 1.05;

/** Answers whether no cell is dearer than allowed. */
export async function compareAgainst(wish: AgainstWish, options: ServerOptions): Promise<boolean> {
  const earlier = moduleIn(wish.folder);
  const steps = planned({ ...wish, only: ['lastout'] }).filter(({ cell }) => cell !== 'latency');
  const pairs = new Map<string, Pair[]>();
  const servers = serversOnDemand(options);
  try {
    for (const [index, step] of steps.entries()) {
      const pair = await measurePair(step, earlier, servers);
      const name = `${step.board.id} ${step.cell}`;
      pairs.set(name, [...(pairs.get(name) ?? []), pair]);
      console.log(
        `${index + 1}/${steps.length}  round ${step.round}  ${name.padEnd(24)}  ${ratioTexts([pair]).join('  ')}`,
      );
    }
  } finally {
    await servers.stop();
  }
  console.log(`\n${tableOf(pairs)}`);
  return [...pairs.values()].every((each) => ratiosOf(each).every(({ median }) => median <= mostRatio));
}

function moduleIn(folder: string): string {
  const module = join(resolve(folder), '.cache', 'bench', 'bench', 'systems', 'lastout.js');
  if (existsSync(module)) return module;
  throw new Error(`${folder} has no built bench. Run "npx tsc -p bench/tsconfig.json --noCheck" in it.`);
}

/** Who is first changes with the round. */
async function measurePair(step: Step, earlier: string, servers: Servers): Promise<Pair> {
  const server = await servers.of(step.board.store);
  const now = (): Promise<Round> => measured(once(step, server));
  const before = (): Promise<Round> =>
    measured(once({ ...step, entrant: { ...step.entrant, kind: 'earlier', module: earlier } }, server));
  if (step.round % 2 === 1) return { now: await now(), before: await before() };
  const first = await before();
  return { now: await now(), before: first };
}

async function measured(round: Promise<Round>): Promise<Round> {
  const { error } = await round;
  if (error !== null) throw new Error(error);
  return round;
}

interface Ratio {
  readonly of: 'client' | 'server';
  readonly now: number;
  readonly before: number;
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

function ratiosOf(pairs: readonly Pair[]): Ratio[] {
  return (['client', 'server'] as const).flatMap((of) => {
    const both = pairs.flatMap(({ now, before }) => (now[of] === null ? [] : [{ now: now[of], before: before[of]! }]));
    if (both.length === 0) return [];
    const ratios = both.map(({ now, before }) => now / before);
    const median = (values: readonly number[]): number => quantileOf(values, 0.5);
    const [least, most] = [Math.min(...ratios), Math.max(...ratios)];
    return [
      {
        of,
        now: median(both.map(({ now }) => now)),
        before: median(both.map(({ before }) => before)),
        median: median(ratios),
        least,
        most,
      },
    ];
  });
}

function ratioTexts(pairs: readonly Pair[]): string[] {
  return ratiosOf(pairs).map(
    ({ of, now, before, median }) => `${of} ${now.toFixed(2)} / ${before.toFixed(2)} µs = ${median.toFixed(3)}`,
  );
}

function tableOf(pairs: ReadonlyMap<string, readonly Pair[]>): string {
  const rows = [...pairs].flatMap(([name, each]) =>
    ratiosOf(each).map(
      ({ of, now, before, median, least, most }) =>
        `| ${name} | ${of} | ${now.toFixed(2)} | ${before.toFixed(2)} | ${median.toFixed(3)} [${least.toFixed(2)}–${most.toFixed(2)}] |${median > mostRatio ? ' dearer' : ''}`,
    ),
  );
  return ['| cell | CPU of | µs per job now | before | ratio [range] |', '|:--|:--|--:|--:|--:|', ...rows].join('\n');
}
