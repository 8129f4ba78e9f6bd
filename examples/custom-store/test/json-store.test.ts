// The store of docs/custom-store.md keeps every rule of the contract, and its file what it was told.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineJob, open } from 'lastout';
import { storeCases, storeHarness } from 'lastout/testing';
import { afterAll, expect, test } from 'vitest';
import { jsonStore } from '../src/json-store.js';

const folder = mkdtempSync(join(tmpdir(), 'lastout-json-store-'));
let files = 0;
const newFile = (): string => join(folder, `${++files}.json`);
afterAll(() => rmSync(folder, { recursive: true }));

test.each(storeCases.map(({ name, run }) => [name, run] as const))('%s', async (_, run) => {
  const harness = await storeHarness(jsonStore(newFile()));
  await run(harness).finally(() => harness.dispose());
});

test('what was enqueued before the process ended runs when the file is opened again', async () => {
  const file = newFile();
  const before = await open(jsonStore(file));
  const { id } = await before.enqueue('greet', { name: 'Ann' });
  await before.close();

  const after = await open(jsonStore(file));
  await after.work([defineJob<{ name: string }, string>('greet', { run: ({ input }) => `Hello ${input.name}` })]);
  expect(await after.wait(id, { timeout: '10s' })).toMatchObject({ state: 'completed', result: 'Hello Ann' });
  await after.close();
  expect(readdirSync(folder).filter((name) => name.endsWith('.new'))).toEqual([]);
});
