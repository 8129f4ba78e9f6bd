// Every rule of the store contract, on the memory store.
import { describe, expect, it } from 'vitest';
import { memoryStore } from '../../src/stores/memory/store.js';
import { storeCases } from '../../src/testing/index.js';
import { harnessOn } from './harness.js';
import { verbs } from '../verbs.js';

describe('memory', () => {
  for (const { name, run } of storeCases) {
    it(name, async () => {
      const harness = await harnessOn(memoryStore());
      await expect(run(harness).finally(() => harness.dispose())).resolves.toBeUndefined();
    });
  }
});

describe('store cases', () => {
  it('are at least 100, each with a name of its own in the form verb: rule', () => {
    const names = storeCases.map(({ name }) => name);
    expect(names.length).toBeGreaterThanOrEqual(100);
    expect(new Set(names).size).toBe(names.length);
    for (const name of names) {
      expect(name).toMatch(/^\w+: \S/);
      expect(verbs).toContain(name.split(':')[0]);
    }
  });
});
