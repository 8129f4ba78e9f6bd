import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { cleanEntrants } from '../bench/clean.js';
import { measureCleaning } from '../bench/measure-cleaning.js';
import type { Cleaner } from '../bench/contender.js';
import { boards, gates, planned } from '../bench/plan.js';
import { openCleaner } from '../bench/systems/lastout.js';

const all = { words: [], only: [], rounds: 3, seconds: null };
const lock = JSON.parse(readFileSync(new URL('../bench/package-lock.json', import.meta.url), 'utf8')) as {
  packages: Record<string, { resolved?: string; integrity?: string }>;
};

describe('the bench', () => {
  it('measures lastout and whom it is compared with in every cell that has a gate', () => {
    for (const { board: id, cell, against } of gates) {
      const board = boards.find((each) => each.id === id);
      const names = board?.entrants.filter(({ cells }) => cells.includes(cell)).map(({ name }) => name) ?? [];
      expect(names, `${id} ${cell}`).toEqual(expect.arrayContaining(['lastout', ...against]));
    }
  });

  it('gives every cell of lastout and its peers at least five seconds in three rounds', () => {
    const seconds = new Map<string, number>();
    for (const step of planned(all)) {
      if (step.entrant.kind === 'floor') continue;
      const key = [step.board.id, step.cell, step.entrant.name].join(' ');
      seconds.set(key, (seconds.get(key) ?? 0) + step.seconds);
    }
    expect(seconds.size).toBeGreaterThan(60);
    expect([...seconds].filter(([, sum]) => sum < 5)).toEqual([]);
  });

  it('leaves a third of twenty minutes for what is not measured', () => {
    const measured = planned(all).reduce((sum, { seconds }) => sum + seconds, 0);
    expect(measured).toBeLessThan((20 * 60 * 2) / 3);
  });

  it('runs the systems of one cell directly after each other, in another order each round', () => {
    const ofRound = (round: number): string[] =>
      planned({ ...all, words: ['redis', 'drain100'] })
        .filter((step) => step.round === round && step.entrant.kind !== 'floor')
        .map(({ entrant }) => entrant.name);
    expect(ofRound(2).toSorted()).toEqual(ofRound(1).toSorted());
    expect(ofRound(2)).not.toEqual(ofRound(1));
    expect(ofRound(3)).not.toEqual(ofRound(2));
  });

  it('takes a store, a cell or a family of cells as its part, and refuses other words', () => {
    const cellsOf = (...words: string[]): string[] => [
      ...new Set(planned({ ...all, words }).map(({ board, cell }) => `${board.store} ${cell}`)),
    ];
    expect(cellsOf('redis', 'drain')).toEqual(['redis drain1', 'redis drain10', 'redis drain100']);
    expect(cellsOf('redis', 'drain1')).toEqual(['redis drain1']);
    expect(() => planned({ ...all, words: ['mongo'] })).toThrow('"mongo" is no part of the bench');
  });

  it('pins its peers by digest and names no address to fetch them from', () => {
    const installed = Object.entries(lock.packages).filter(([path]) => path !== '');
    expect(installed.length).toBeGreaterThan(50);
    expect(installed.filter(([, { resolved }]) => resolved !== undefined)).toEqual([]);
    expect(installed.filter(([, { integrity }]) => !integrity?.startsWith('sha512-'))).toEqual([]);
  });
});

describe('the bench of cleaning up', () => {
  it('measures lastout on every store, beside BullMQ, pg-boss and plainjob', () => {
    const on = (store: string): string[] =>
      cleanEntrants.filter((each) => each.store === store).map(({ name }) => name.replace(/,.*/, ''));
    expect([...new Set(on('memory'))]).toEqual(['lastout']);
    expect([...new Set(on('sqlite'))]).toEqual(['lastout', 'plainjob']);
    expect([...new Set(on('postgres'))]).toEqual(['lastout', 'pg-boss']);
    expect([...new Set(on('redis'))]).toEqual(['lastout', 'BullMQ']);
  });

  it('sees the pause of an enqueue while the process stands still, and claims that wait for it', async () => {
    const standStill = (ms: number): void => {
      for (const end = performance.now() + ms; performance.now() < end; );
    };
    const { idle, during, removed } = await measureCleaning(
      toySystem(() => standStill(300)),
      0.2,
      now,
    );
    expect(removed).toBe(7);
    expect(during.longestPause).toBeGreaterThanOrEqual(290);
    expect(during.longPauses).toBeGreaterThanOrEqual(1);
    for (const stretch of [idle, during]) {
      expect(stretch.enqueues).toBeGreaterThan(0);
      expect(stretch.claims).toBeGreaterThan(0);
    }
  });

  it('counts what a slow removal does to claims as such', async () => {
    const { idle, during } = await measureCleaning(
      toySystem(() => new Promise((resolve) => setTimeout(resolve, 300))),
      0.2,
      now,
    );
    expect(during.enqueues).toBeGreaterThan(1);
    expect(during.claims).toBeGreaterThan(1);
    expect(idle.claimP50).toBeLessThanOrEqual(idle.claimP99);
  });

  it('removes all that it loaded of a small store in memory', async () => {
    const where = { store: 'memory', at: '', setup: '', payload: { to: 'ann' } } as const;
    const system = await openCleaner(where, { count: 2_500, afterMs: 1 });
    await system.due?.();
    expect(await system.clean()).toBe(2_500);
    await system.close();
  });
});

const now = (): number => performance.now();

/** Runs each job at once, and removes seven jobs in its own way. */
function toySystem(clean: () => unknown): Cleaner {
  let run: () => void = () => undefined;
  return {
    add: () => setImmediate(() => run()),
    addAside: () => undefined,
    async work(_concurrency, onJob) {
      run = onJob;
      return { stop: async () => undefined };
    },
    async clean() {
      await clean();
      return 7;
    },
    close: async () => undefined,
  };
}
