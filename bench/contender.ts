/** What the bench asks of every system that it measures: lastout, its peers and the bare engines alike. */

/** One system, opened in a process of its own. */
export interface Contender {
  /** Adds one job; resolves when the system has accepted it. */
  add(): unknown;
  /** Adds so many jobs in one call of the system's own bulk function. */
  addMany(count: number): Promise<unknown>;
  /** Starts a worker whose handler is an async function that only calls `onJob`. */
  work(concurrency: number, onJob: () => void): Promise<Working>;
  close(): Promise<unknown>;
}

export interface Working {
  /** Resolves when the ends of all jobs are stored. A system without it is given the benefit: its last handler counts. */
  settled?(): Promise<unknown>;
  stop(): Promise<unknown>;
}

export interface Where {
  readonly store: Store;
  /** The server's URL, or the path of a file in an empty folder. */
  readonly at: string;
  /** How the system is set up, such as "tuned"; it knows the word itself. */
  readonly setup: string;
  /** What each job carries: a hundred bytes as JSON. */
  readonly payload: Readonly<Record<string, string | number>>;
}

export type OpenContender = (where: Where) => Promise<Contender>;

/** A system that was opened with many finished jobs in its store, and removes them when it is told to. */
export interface Cleaner extends Omit<Contender, 'addMany'> {
  /** Adds one job that no worker takes. */
  addAside(): unknown;
  /** Resolves when they may go. */
  due?(): Promise<void>;
  /** Removes them all, by the system's own means, in this process. Resolves with how many went. */
  clean(): Promise<number>;
}

export interface Finished {
  readonly count: number;
  /** They may not go sooner than this. */
  readonly afterMs: number;
}

export type OpenCleaner = (where: Where, finished: Finished) => Promise<Cleaner>;

export const stores = ['memory', 'sqlite', 'postgres', 'redis'] as const;
export type Store = (typeof stores)[number];

/** The stores that were asked for by name; no names mean all of them. */
export function storesNamed(words: readonly string[]): readonly Store[] {
  const strange = words.find((word) => !stores.includes(word as Store));
  if (strange !== undefined) throw new Error(`"${strange}" is no store; there are ${stores.join(', ')}.`);
  return words.length === 0 ? stores : stores.filter((store) => words.includes(store));
}

export const cells = ['enqueue100', 'enqueue1', 'bulk', 'drain1', 'drain10', 'drain100', 'latency'] as const;
export type Cell = (typeof cells)[number];
