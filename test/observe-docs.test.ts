// The pages on metrics and alerts name what there is, with its numbers, and nothing else.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { counters, gauges, timers } from '../src/observe/metric-table.js';
import { type Rule, rules } from '../src/observe/rules.js';

const page = (name: string): string => readFileSync(join(import.meta.dirname, '..', 'docs', name), 'utf8');
/** The rows of all tables of a page, as cells. */
const rows = (text: string): string[][] =>
  text
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) => line.split('|').map((cell) => cell.trim()).slice(1, -1)); // biome-ignore format: one pipe

describe('docs/metrics.md', () => {
  it('has a row for each metric, with its labels', () => {
    const described: { name: string; labels?: readonly string[] }[] = [
      ...Object.values(counters),
      ...Object.values(timers),
      ...Object.values(gauges),
    ];
    const told = new Map<string, string>();
    for (const [names, labels] of rows(page('metrics.md')))
      for (const [, name] of names!.matchAll(/`((?:lastout_)?[A-Za-z_]+)`/g)) told.set(name!, labels!);
    const four = ['totalOrphanedJobs', 'cleanupFrequency', 'avgJobLifetime', 'failedCleanups'];
    for (const { name, labels = [] } of described) {
      expect(told.has(name), name).toBe(true);
      if (!four.includes(name)) expect(told.get(name), name).toBe(labels.join(', '));
    }
    const names = described.map(({ name }) => name);
    expect([...told.keys()].filter((name) => name.startsWith('lastout_') && !names.includes(name))).toEqual([]);
  });
});

describe('docs/alerts.md', () => {
  it('has a row for each rule, with its numbers', () => {
    const expected = Object.entries(rules).map(([name, rule]: [string, Rule]) => {
      const { severity, unit, above, clear, pendingMs } = rule;
      return [`\`${name}\``, severity, unit, String(above), String(clear), `${pendingMs / 1_000} s`];
    });
    const told = rows(page('alerts.md')).filter(([, severity]) => severity === 'warning' || severity === 'critical');
    expect(told.map((cells) => cells.slice(0, 6))).toEqual(expected);
  });
});
