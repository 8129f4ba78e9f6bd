// The structures that keep the memory store's costs flat, against the plainest code that does the same.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createLine, firstOf } from '../../src/stores/memory/line.js';
import { newestOf, Ordered } from '../../src/stores/memory/ordered.js';
import { Timed } from '../../src/stores/memory/timed.js';
import { plainRow } from '../cost/rows.js';

interface Item {
  readonly seq: number;
  readonly at: number;
  stands: boolean;
}

const before = (a: Item, b: Item): boolean => (a.at !== b.at ? a.at < b.at : a.seq < b.seq);
const byOrder = (a: Item, b: Item): number => (before(a, b) ? -1 : 1);

/** Mostly in order, some early, some far off: as jobs come in, go back, and are moved. */
const acts = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: fc.record({ kind: fc.constant('push' as const), at: fc.integer({ min: 0, max: 30 }) }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('append' as const), at: fc.integer({ min: 0, max: 2 }) }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant('pop' as const), at: fc.constant(0) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('putBack' as const), at: fc.integer({ min: 1, max: 5 }) }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant('leave' as const), at: fc.nat(50) }) },
  ),
  { maxLength: 120 },
);

describe('a line', () => {
  test('gives its entries in order, whatever came, went back or left', () => {
    fc.assert(
      fc.property(acts, (list) => {
        const line = createLine<Item>(
          before,
          ({ stands }) => stands,
          () => gone,
        );
        let plain: Item[] = [];
        let gone = 0;
        let seq = 0;
        const add = (at: number): void => {
          const item = { seq: ++seq, at, stands: true };
          line.push(item);
          plain = [...plain, item].sort(byOrder);
        };
        for (const { kind, at } of list) {
          if (kind === 'push') add(at);
          else if (kind === 'append') add((plain.at(-1)?.at ?? 0) + at);
          else if (kind === 'pop') expect(line.pop()).toBe(plain.shift());
          else if (kind === 'putBack') {
            expect(line.first(at)).toEqual(plain.slice(0, at));
            expect(firstOf([line], before, at)).toEqual(plain.slice(0, at));
          } else if (plain.length > 0) {
            const [left] = plain.splice(at % plain.length, 1);
            left!.stands = false;
            gone += 1;
          }
          expect(line.peek()).toBe(plain[0]);
        }
        const shown: Item[] = [];
        line.walk((item) => item.at <= 15 && shown.push(item) > 0);
        expect(shown.sort(byOrder)).toEqual(plain.filter(({ at }) => at <= 15));
        while (plain.length > 0) expect(line.pop()).toBe(plain.shift());
        expect(line.pop()).toBeUndefined();
      }),
      { numRuns: 500, seed: 20300101 },
    );
  });

  test('holds no more than what stands and about as much again, whatever has passed through', () => {
    const line = createLine<Item>(
      before,
      ({ stands }) => stands,
      () => gone,
    );
    const standing: Item[] = [];
    let gone = 0;
    for (let seq = 0; seq < 100_000; seq++) {
      const item = { seq, at: seq % 7 === 0 ? seq - 50 : seq, stands: true };
      line.push(item);
      standing.push(item);
      if (standing.length > 100) {
        standing.shift()!.stands = false;
        gone += 1;
      }
      if (seq % 3 === 0) line.peek();
    }
    expect(line.size).toBeLessThan(5_000);
  });

  test('several lines are read as one, up to a bound, and stay as they were', () => {
    const lines = [0, 1, 2].map((n) => {
      const line = createLine<Item>(
        before,
        ({ stands }) => stands,
        () => 0,
      );
      for (let i = 0; i < 10; i++) line.push({ seq: i * 3 + n, at: i * 3 + n, stands: true });
      return line;
    });
    const read = (limit: number, upTo: number): number[] =>
      firstOf(lines, before, limit, ({ at }) => at <= upTo).map(({ seq }) => seq);
    expect(read(5, 100)).toEqual([0, 1, 2, 3, 4]);
    expect(read(100, 6)).toEqual([0, 1, 2, 3, 4, 5, 6]);
    expect(read(100, 100)).toHaveLength(30);
    expect(firstOf([], before, 5)).toEqual([]);
  });
});

describe('a timed list', () => {
  test('is read from any position in both directions, whatever came late or left', () => {
    const instants = fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 1_500 });
    const position = fc.record({ at: fc.integer({ min: -1, max: 401 }), seq: fc.integer({ min: -1, max: 1_501 }) });
    fc.assert(
      fc.property(instants, fc.option(position), fc.nat(5), (list, from, thin) => {
        const timed = new Timed();
        const entries = list.map((at, seq) => ({ at, seq, row: plainRow(seq) }));
        for (const { at, row } of entries) timed.add(at, row);
        const stay = entries.filter((_, index) => index % (thin + 2) === 0);
        for (const entry of entries) if (!stay.includes(entry)) timed.remove(entry.at, entry.row);
        timed.remove(7, plainRow(-1)); // never added
        const inOrder = stay.toSorted((a, b) => a.at - b.at || a.seq - b.seq);
        const compare = (entry: { at: number; seq: number }): number =>
          from === null ? 1 : entry.at - from.at || entry.seq - from.seq;
        expect([...timed.after(from)]).toEqual(inOrder.filter((entry) => compare(entry) > 0));
        const back = from === null ? inOrder : inOrder.filter((entry) => compare(entry) < 0);
        expect([...timed.before(from)]).toEqual(back.toReversed());
        expect(timed.size).toBe(stay.length);
        for (const at of [0, 200, 401])
          expect(timed.countBefore(at)).toBe(stay.filter((entry) => entry.at < at).length);
      }),
      { numRuns: 60, seed: 20300101 },
    );
  });
});

describe('an ordered list', () => {
  test('is read from the newest below any seq, whatever came late or left', () => {
    const seqs = fc.uniqueArray(fc.integer({ min: 0, max: 5_000 }), { maxLength: 2_000 });
    fc.assert(
      fc.property(seqs, fc.integer({ min: 0, max: 5_000 }), fc.nat(5), (list, bound, thin) => {
        const ordered = new Ordered<{ seq: number }>();
        const items = list.map((seq) => ({ seq }));
        for (const item of items) ordered.add(item);
        const stay = items.filter((_, index) => index % (thin + 2) === 0);
        for (const item of items) if (!stay.includes(item)) ordered.remove(item);
        ordered.remove({ seq: 1 }); // never added
        const newest = stay.toSorted((a, b) => b.seq - a.seq);
        expect([...ordered.newestFirst(bound)]).toEqual(newest.filter(({ seq }) => seq < bound));
        expect(ordered.size).toBe(stay.length);
        for (const item of items.slice(0, 20)) {
          expect(ordered.at(item.seq)).toBe(stay.includes(item) ? item : undefined);
        }
      }),
      { numRuns: 60, seed: 20300101 },
    );
  });

  test('several lists are read as one, and what stands in two of them comes once', () => {
    const [a, b, c] = [{ seq: 1 }, { seq: 2 }, { seq: 3 }];
    expect([...newestOf([[c, a], [b, a], []])]).toEqual([c, b, a]);
  });
});
