/**
 * What a cleanup does to those who use the queue meanwhile: many finished jobs are removed, in the process that adds jobs
 * and runs them.
 *
 *   npm run bench -- clean                     a million finished jobs, on every store
 *   npm run bench -- clean sqlite redis        some stores
 */
import { apart } from './child.js';
import type { Cleaned, CleanOrder } from './cleaning.js';
import { type Store, stores, storesNamed } from './contender.js';
import { pauseMaxMs } from './measure-cleaning.js';
import { installPeers, peerVersions } from './peers.js';
import { moduleOf } from './places.js';
import type { Entrant } from './plan.js';
import { type Server, serverFor, type ServerOptions } from './servers.js';
import { machine, table } from './tables.js';

type CleanEntrant = Pick<Entrant, 'name' | 'kind' | 'module' | 'setup'> & { readonly store: Store };

const lastout = (store: Store, setup = '', name = 'lastout'): CleanEntrant => ({
  name,
  kind: 'lastout',
  module: 'lastout.js',
  setup,
  store,
});
const peer = (store: Store, name: string, module: string, setup = ''): CleanEntrant => ({
  name,
  kind: 'peer',
  module,
  setup,
  store,
});

export const cleanEntrants: readonly CleanEntrant[] = [
  lastout('memory'),
  lastout('sqlite', 'full', 'lastout, FULL'),
  lastout('sqlite', 'normal', 'lastout, NORMAL'),
  peer('sqlite', 'plainjob, NORMAL', 'plainjob.mjs', 'normal'),
  lastout('postgres'),
  peer('postgres', 'pg-boss', 'pg-boss.mjs'),
  lastout('redis'),
  peer('redis', 'BullMQ', 'bullmq.mjs'),
  peer('redis', 'BullMQ, 1,000 a call', 'bullmq.mjs', '1000'),
];

/** A claim may take so many times as long as on an idle queue, at its p99. */
const claimMax = 3;
const limitMs = 30 * 60_000;

export interface CleanWish {
  /** Stores; none means all. */
  readonly words: readonly string[];
  /** Names of entrants, in part; none means all. */
  readonly only: readonly string[];
  readonly sizes: readonly number[];
  readonly rounds: number;
  readonly seconds: number;
}

export interface CleanResult {
  readonly store: Store;
  readonly entrant: string;
  readonly kind: Entrant['kind'];
  readonly jobs: number;
  readonly round: number;
  readonly cleaned: Cleaned | null;
  /** Why there is no number. */
  readonly error: string | null;
}

export interface CleanReport {
  readonly results: readonly CleanResult[];
  readonly text: string;
  /** What lastout does not keep to. */
  readonly misses: readonly string[];
}

export async function compareCleaning(wish: CleanWish, options: ServerOptions): Promise<CleanReport> {
  const entrants = entrantsFor(wish);
  if (entrants.some(({ kind }) => kind === 'peer')) installPeers();
  const results: CleanResult[] = [];
  for (const store of stores.filter((each) => entrants.some((entrant) => entrant.store === each))) {
    const server = await serverFor(store, options);
    try {
      for (let round = 1; round <= wish.rounds; round++) {
        for (const jobs of wish.sizes) {
          for (const entrant of entrants.filter((each) => each.store === store)) {
            const result = await once(entrant, server, { jobs, round, seconds: wish.seconds });
            results.push(result);
            console.log(`${store.padEnd(8)}  ${entrant.name.padEnd(20)}  ${lineOf(result)}`);
          }
        }
      }
    } finally {
      await server.stop();
    }
  }
  return { results, text: render(results, wish.seconds), misses: missesOf(results) };
}

function entrantsFor({ words, only }: CleanWish): readonly CleanEntrant[] {
  const wanted = storesNamed(words);
  return cleanEntrants.filter(
    ({ store, name }) =>
      wanted.includes(store) && (only.length === 0 || only.some((part) => name.toLowerCase().includes(part))),
  );
}

async function once(
  entrant: CleanEntrant,
  server: Server,
  { jobs, round, seconds }: { jobs: number; round: number; seconds: number },
): Promise<CleanResult> {
  const { store, name, kind, setup } = entrant;
  const about = { store, entrant: name, kind, jobs, round };
  try {
    const at = await server.empty();
    const serverPid = store === 'redis' ? server.pid : null;
    const order: CleanOrder = { module: moduleOf(entrant), where: { store, at, setup }, jobs, seconds, serverPid };
    const cleaned = await apart<Cleaned>('./cleaning.js', order, limitMs);
    if (cleaned.removed < jobs) throw new Error(`${cleaned.removed} of ${jobs} jobs were removed.`);
    return { ...about, cleaned, error: null };
  } catch (error) {
    return { ...about, cleaned: null, error: (error as Error).message };
  }
}

function lineOf({ cleaned, error }: CleanResult): string {
  if (!cleaned) return `failed: ${error!.split('\n')[0]!.slice(0, 200)}`;
  const { seconds, idle, during, loadSeconds } = cleaned;
  return (
    `${seconds.toFixed(1)} s (loaded in ${loadSeconds.toFixed(0)} s), longest pause ${ms(idle.longestPause)} → ${ms(during.longestPause)}, ` +
    `p99 of claims ${ms(idle.claimP99)} → ${ms(during.claimP99)} ms`
  );
}

function render(results: readonly CleanResult[], seconds: number): string {
  const versions = peerVersions();
  const peers = ['plainjob', 'pg-boss', 'bullmq'].map((name) => `${name} ${versions[name] ?? '(not installed)'}`);
  const rows = results.map((result) => {
    const { store, entrant, kind, jobs, cleaned } = result;
    const head = [kind === 'lastout' ? `**${entrant}**` : entrant, store, jobs.toLocaleString('en')];
    if (!cleaned) return [...head, 'failed', '', '', '', '', '', ''];
    const { idle, during } = cleaned;
    return [
      ...head,
      `${cleaned.seconds.toFixed(1)} s`,
      Math.round(cleaned.removed / cleaned.seconds).toLocaleString('en'),
      `${ms(idle.longestPause)} → ${ms(during.longestPause)}`,
      `${ms(idle.longestOnTheWall)} → ${ms(during.longestOnTheWall)}`,
      `${ms(idle.enqueueP50)} / ${ms(idle.enqueueP99)} → ${ms(during.enqueueP50)} / ${ms(during.enqueueP99)}`,
      `${ms(idle.claimP50)} / ${ms(idle.claimP99)} → ${ms(during.claimP50)} / ${ms(during.claimP99)}`,
      `${(during.claimP99 / idle.claimP99).toFixed(2)} ×`,
    ];
  });
  const head = [
    '',
    'store',
    'finished jobs',
    'removed in',
    'jobs/s',
    'longest pause of an enqueue',
    'on the wall',
    'enqueue p50 / p99',
    'claim p50 / p99',
    'p99 of claims',
  ];
  const misses = missesOf(results);
  return [
    `${machine()}. Peers: ${peers.join(', ')}.`,
    `Milliseconds, idle (${seconds} s) → while finished jobs are removed:`,
    table(head, rows),
    misses.length === 0
      ? `lastout keeps to its bounds: a pause of at most ${pauseMaxMs} ms, ${claimMax} × the p99 of an idle claim.`
      : misses.map((miss) => `- ${miss}`).join('\n'),
    ...results.filter(({ error }) => error).map(({ entrant, store, error }) => `- ${entrant}, ${store}: ${error}`),
  ].join('\n\n');
}

function missesOf(results: readonly CleanResult[]): string[] {
  return results
    .filter(({ kind }) => kind === 'lastout')
    .flatMap(({ entrant, store, jobs, cleaned }) => {
      const who = `${entrant}, ${store}, ${jobs.toLocaleString('en')} jobs`;
      if (!cleaned) return [`${who}: failed`];
      const { idle, during } = cleaned;
      const ratio = during.claimP99 / idle.claimP99;
      return [
        ...(during.longestPause > pauseMaxMs
          ? [
              `${who}: the longest pause is ${ms(during.longestPause)} ms (${during.longPauses} of ${during.enqueues} ` +
                `above ${pauseMaxMs}; idle ${ms(idle.longestPause)} ms, ${idle.longPauses} of ${idle.enqueues})`,
            ]
          : []),
        ...(ratio > claimMax ? [`${who}: the p99 of claims is ${ratio.toFixed(2)} × that of an idle queue`] : []),
      ];
    });
}

function ms(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString('en') : value.toFixed(value >= 10 ? 1 : 2);
}
