import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { boards, gates, planned } from '../bench/plan.js';

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
