// The page of systems says only what a test run has shown.
import { readdir, readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { collect, faultsOf, judge, readTitle, render } from '../scripts/systems.mjs';

const report = (...tests: [title: string, status: string][]) => ({
  testResults: [{ assertionResults: tests.map(([title, status]) => ({ title, status })) }],
});
const known = new Set(['001-01', '001-02', '001-03', '001-04']);

describe('systems', () => {
  it('reads the numbers that a title starts with, and no others', () => {
    expect(readTitle('001-01 001-02 skip is like 001-03')).toEqual({
      items: ['001-01', '001-02'],
      text: 'skip is like 001-03',
    });
    expect(readTitle('skip 001-03').items).toEqual([]);
  });

  it('counts an item only if a test that names it passed and none failed', () => {
    const { shown } = collect(
      report(['001-01 a', 'passed'], ['001-02 b', 'skipped'], ['001-03 c', 'passed'], ['001-03 d', 'failed']),
      known,
    );
    expect([...known].map((item) => judge(shown.get(item)))).toEqual(['shown', 'missing', 'failing', 'missing']);
  });

  it('refuses a title with more than three numbers, and a number that no system has', () => {
    const { errors } = collect(report(['001-01 001-02 001-03 001-04 all', 'passed'], ['009-01 x', 'passed']), known);
    expect(errors).toEqual([
      '"001-01 001-02 001-03 001-04 all" names 4 items, at most 3',
      '"009-01 x" names 009-01, which no system has',
    ]);
  });

  it('says on the page what is shown, failing, missing and not built', () => {
    const items = [
      { id: '001-01', text: 'one | pipe' },
      { id: '001-02', text: 'two' },
      { id: '001-03', text: 'three' },
    ];
    const { shown } = collect(report(['001-01 first', 'passed'], ['001-03 third', 'failed']), known);
    const page = render([{ id: '001', name: 'Builder', items, departures: [] }], shown);
    expect(page).toContain('| 001 | Builder | 1 of 3 |\n| all | | 1 of 3 |');
    expect(page).toContain('## 001 Builder: 1 of 3');
    expect(page).toContain(
      '| 001-01 | one \\| pipe | first |\n| 001-02 | two | **not shown** |\n| 001-03 | three | **failing:** third |',
    );
  });

  it('says on the page what differs on purpose and why, or that nothing does', () => {
    const departures = [{ point: 'a | b', instead: 'c', why: 'd' }];
    const page = render(
      [
        { id: '001', name: 'Builder', items: [{ id: '001-01', text: 'one' }], departures },
        { id: '002', name: 'Leases', items: [], departures: [] },
      ],
      new Map(),
    );
    expect(page).toContain(
      '| 001-01 | one | **not shown** |\n\nWhat differs on purpose:\n\n| the document | instead | why |\n|---|---|---|\n| a \\| b | c | d |\n\n## 002',
    );
    expect(page.split('## 002')[1]).toContain('\n\nNothing differs on purpose.\n');
    expect(render([{ id: '003', name: 'Diagrams', items: [] }], new Map())).toContain('is not written down');
  });

  it('refuses a system without a list of departures, and a departure that does not say what, what instead and why', () => {
    const whole = { point: 'a', instead: 'b', why: 'c' };
    expect(faultsOf({ id: '001', departures: [] })).toEqual([]);
    expect(faultsOf({ id: '001', departures: [whole] })).toEqual([]);
    expect(faultsOf({ id: '001' })).toEqual(['001 has no list of departures']);
    const broken = [{ ...whole, why: ' ' }, { point: 'a', why: 'c' }, whole, { ...whole, instead: 7 }];
    expect(faultsOf({ id: '001', departures: broken })).toEqual([
      'departure 1 of 001 has no why',
      'departure 2 of 001 has no instead',
      'departure 4 of 001 has no instead',
    ]);
  });

  it('knows all items of all five systems', async () => {
    const folder = new URL('../docs/systems/', import.meta.url);
    const read = async (name: string): Promise<unknown> => JSON.parse(await readFile(new URL(name, folder), 'utf8'));
    const sizes: { [id: string]: number } = {};
    for (const name of await readdir(folder)) {
      const { id, items } = (await read(name)) as { id: string; items: { id: string; text: string }[] };
      expect([name, sizes[id]]).toEqual([`${id}.json`, undefined]);
      expect(items.map((item) => item.id)).toEqual(items.map((_, n) => `${id}-${String(n + 1).padStart(2, '0')}`));
      expect(items.filter(({ text }) => text.trim() === '')).toEqual([]);
      sizes[id] = items.length;
    }
    const lists = (await Promise.all((await readdir(folder)).map(read))) as { id: string; departures?: unknown }[];
    expect(lists.flatMap((system) => faultsOf(system))).toEqual([]);
    expect(sizes).toEqual({ '000': 35, '001': 48, '002': 39, '003': 36, '004': 43 });
  });
});
