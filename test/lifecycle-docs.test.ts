// The pages about retention, artifacts and explanations say what the code does.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { defaultLimits } from '../src/artifacts/quota.js';
import { termMs } from '../src/lifecycle/pass.js';
import { open } from '../src/index.js';
import { closedAfterwards } from './support.js';

const page = (name: string): string => readFileSync(new URL(`../docs/${name}.md`, import.meta.url), 'utf8');

describe('docs/retention.md', () => {
  it('shows the defaults as they are, besides maxStoredJobs', async () => {
    const [, shown] = /cleanup: (\{[^}]*\})/.exec(page('retention'))!;
    const given = (0, eval)(`(${shown})`) as { maxStoredJobs: number };
    const queue = closedAfterwards(await open('memory:', { cleanup: given }));
    const { policy } = await queue.plan();
    expect(policy).toEqual(given);
    const plain = closedAfterwards(await open('memory:'));
    expect((await plain.plan()).policy).toEqual({ ...given, maxStoredJobs: 1_000 });
  });

  it('names the rules by the names of the report, and the term by its length', async () => {
    const queue = closedAfterwards(await open('memory:'));
    const text = page('retention');
    for (const rule of Object.keys((await queue.sweep()).removedBy)) expect(text).toContain(`| \`${rule}\` |`);
    expect(text).toContain(`a *term* of ${termMs / 1_000} seconds`);
  });
});

describe('docs/artifacts.md', () => {
  it('has the quotas that hold', () => {
    const text = page('artifacts');
    const size = (bytes: number): string =>
      bytes >= 1024 ** 3 ? `${bytes / 1024 ** 3} GiB` : `${bytes / 1024 ** 2} MiB`;
    const { files, memory } = defaultLimits;
    expect(text).toContain(`together | ${size(files.maxBytes)} | ${size(memory.maxBytes)} |`);
    expect(text).toContain(`\`maxBytesPerJob\` | ${size(files.maxBytesPerJob)} | ${size(memory.maxBytesPerJob)} |`);
  });
});

describe('docs/explain.md', () => {
  it('names everything that blocks a job', () => {
    const code = readFileSync(new URL('../src/lifecycle/explain.ts', import.meta.url), 'utf8');
    const [, words] = /What it waits for: (.*?), or the id/.exec(code)!;
    const names = [...words!.matchAll(/`(\w+)`/g)].map((match) => match[1]!);
    expect(names).toHaveLength(8);
    for (const name of names) expect(page('explain')).toContain(`| \`${name}\` |`);
  });
});
