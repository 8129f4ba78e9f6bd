/** Who is measured, where and in what; and what must come of it. */
import { cells, type Cell, type Store } from './contender.js';

export interface Entrant {
  readonly name: string;
  readonly kind: 'lastout' | 'peer' | 'floor' | 'earlier';
  /** In `systems/` if it is ours or the bare engine, in `peers/` if it is a peer; of an earlier build the whole path. */
  readonly module: string;
  readonly setup: string;
  readonly cells: readonly Cell[];
}

/** Systems that may be compared: the same store, as durable. */
export interface Board {
  readonly id: string;
  readonly title: string;
  readonly store: Store;
  readonly entrants: readonly Entrant[];
}

/** lastout must be at least so many times as fast as the best of the entrants. The aim is twice that. */
export interface Gate {
  readonly board: string;
  readonly cell: Cell;
  readonly against: readonly string[];
  readonly atLeast: number;
}

const adding = ['enqueue100', 'enqueue1', 'bulk'] as const;
const draining = ['drain1', 'drain10', 'drain100'] as const;
const floorCells = [...adding, 'drain100'] as const;
const gated: readonly Cell[] = ['enqueue100', 'enqueue1', 'drain100'];

const lastout = (setup = '', some: readonly Cell[] = cells): Entrant => ({
  name: 'lastout',
  kind: 'lastout',
  module: 'lastout.js',
  setup,
  cells: some,
});
const peer = (name: string, module: string, setup: string, some: readonly Cell[] = cells): Entrant => ({
  name,
  kind: 'peer',
  module,
  setup,
  cells: some,
});
const floor = (module: string, setup = '', some: readonly Cell[] = floorCells): Entrant => ({
  name: 'bare engine',
  kind: 'floor',
  module,
  setup,
  cells: some,
});

export const boards: readonly Board[] = [
  {
    id: 'memory',
    title: 'Memory',
    store: 'memory',
    entrants: [
      lastout(),
      peer('fastq.promise', 'fastq.mjs', ''),
      peer('fastq.promise, run at once', 'fastq.mjs', 'run', ['enqueue100', 'enqueue1']),
      floor('floor-memory.js', '', ['enqueue100', 'drain100']),
    ],
  },
  {
    id: 'sqlite-normal',
    title: 'SQLite, synchronous = NORMAL',
    store: 'sqlite',
    entrants: [lastout('normal'), peer('plainjob', 'plainjob.mjs', 'normal'), floor('floor-sqlite.js', 'normal')],
  },
  {
    id: 'sqlite-full',
    title: 'SQLite, synchronous = FULL',
    store: 'sqlite',
    entrants: [
      lastout('full', gated),
      peer('plainjob', 'plainjob.mjs', 'full', gated),
      floor('floor-sqlite.js', 'full', gated),
    ],
  },
  {
    id: 'postgres',
    title: 'PostgreSQL',
    store: 'postgres',
    entrants: [
      lastout(),
      peer('graphile-worker', 'graphile-worker.mjs', 'plain'),
      peer('graphile-worker, tuned', 'graphile-worker.mjs', 'tuned', draining),
      peer('pg-boss', 'pg-boss.mjs', 'plain', [...adding, ...draining]),
      peer('pg-boss, best', 'pg-boss.mjs', 'best', draining),
      peer('pg-boss, notify', 'pg-boss.mjs', 'notify', ['latency']),
      floor('floor-postgres.js'),
    ],
  },
  {
    id: 'redis',
    title: 'Redis',
    store: 'redis',
    entrants: [
      lastout(),
      peer('BullMQ', 'bullmq.mjs', ''),
      peer('bee-queue', 'bee-queue.mjs', ''),
      floor('floor-redis.js'),
    ],
  },
];

const oneCaller = (board: string, ...against: readonly string[]): Gate => ({
  board,
  cell: 'enqueue1',
  against,
  atLeast: 0.8,
});

export const gates: readonly Gate[] = [
  { board: 'memory', cell: 'enqueue100', against: ['fastq.promise'], atLeast: 2 },
  { board: 'memory', cell: 'drain100', against: ['fastq.promise'], atLeast: 0.7 },
  oneCaller('memory', 'fastq.promise'),
  { board: 'sqlite-normal', cell: 'enqueue100', against: ['plainjob'], atLeast: 5 },
  { board: 'sqlite-normal', cell: 'drain100', against: ['plainjob'], atLeast: 6 },
  oneCaller('sqlite-normal', 'plainjob'),
  { board: 'sqlite-full', cell: 'enqueue100', against: ['plainjob'], atLeast: 5 },
  { board: 'sqlite-full', cell: 'drain100', against: ['plainjob'], atLeast: 6 },
  oneCaller('sqlite-full', 'plainjob'),
  { board: 'postgres', cell: 'enqueue100', against: ['graphile-worker', 'pg-boss'], atLeast: 25 },
  { board: 'postgres', cell: 'drain100', against: ['graphile-worker, tuned'], atLeast: 1.5 },
  { board: 'postgres', cell: 'drain100', against: ['pg-boss', 'pg-boss, best'], atLeast: 2 },
  oneCaller('postgres', 'graphile-worker', 'pg-boss'),
  { board: 'redis', cell: 'enqueue100', against: ['bee-queue'], atLeast: 1.5 },
  { board: 'redis', cell: 'enqueue100', against: ['BullMQ'], atLeast: 4 },
  { board: 'redis', cell: 'drain100', against: ['bee-queue'], atLeast: 8 },
  { board: 'redis', cell: 'drain100', against: ['BullMQ'], atLeast: 10 },
  oneCaller('redis', 'BullMQ', 'bee-queue'),
];

/** One measurement. */
export interface Step {
  readonly round: number;
  readonly board: Board;
  readonly cell: Cell;
  readonly entrant: Entrant;
  readonly seconds: number;
}

export interface Wish {
  /** Boards, stores, cells, "drain" or "enqueue"; none means all. */
  readonly words: readonly string[];
  /** Names of entrants, in part; none means all. */
  readonly only: readonly string[];
  readonly rounds: number;
  /** How long each measurement takes; null: as the plan says. */
  readonly seconds: number | null;
}

/**
 * Seconds per measurement: longer where a gate depends on it. In three rounds each cell has more than five. The bare
 * engines, which nobody competes with, are measured in the first round only.
 */
const longSeconds = 3;
const shortSeconds = 1.7;

export function planned({ words, only, rounds, seconds }: Wish): Step[] {
  const boardWords = words.filter((word) => boards.some((board) => isBoard(board, word)));
  const cellWords = words.filter((word) => cells.some((cell) => isCell(cell, word)));
  const strange = words.find((word) => !boardWords.includes(word) && !cellWords.includes(word));
  if (strange !== undefined) {
    const known = [...new Set(boards.map(({ store }) => store)), ...cells, 'enqueue', 'drain'];
    throw new Error(`"${strange}" is no part of the bench; there are ${known.join(', ')}.`);
  }
  const steps: Step[] = [];
  for (let round = 1; round <= rounds; round++) {
    for (const board of boards.filter((each) => wants(boardWords, (word) => isBoard(each, word)))) {
      for (const cell of cells.filter((each) => wants(cellWords, (word) => isCell(each, word)))) {
        const entrants = board.entrants.filter(
          (each) =>
            each.cells.includes(cell) &&
            wants(only, (part) => each.name.toLowerCase().includes(part)) &&
            (each.kind !== 'floor' || round === 1),
        );
        // The order changes: nobody is always first after the store was emptied.
        const turned = entrants.map((_, i) => entrants[(i + round - 1) % entrants.length]!);
        for (const entrant of turned)
          steps.push({ round, board, cell, entrant, seconds: seconds ?? secondsOf(cell, entrant) });
      }
    }
  }
  return steps;
}

function secondsOf(cell: Cell, entrant: Entrant): number {
  return gated.includes(cell) || entrant.kind === 'floor' ? longSeconds : shortSeconds;
}

function wants(words: readonly string[], fits: (word: string) => boolean): boolean {
  return words.length === 0 || words.some(fits);
}

function isBoard({ id, store }: Board, word: string): boolean {
  return word === id || word === store;
}

function isCell(cell: Cell, word: string): boolean {
  return word === cell || word === cell.replace(/\d+$/, '');
}
