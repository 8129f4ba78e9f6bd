// Every rule of the store contract, on PostgreSQL, each in an empty schema.
import { expect, it } from 'vitest';
import { storeCases } from '../../src/testing/index.js';
import { describeOn } from '../engines.js';
import { harnessOf } from './harness.js';

describeOn('postgres', 'postgres', () => {
  for (const { name, run } of storeCases) {
    it(name, async () => {
      const harness = await harnessOf('postgres');
      await expect(run(harness).finally(() => harness.dispose())).resolves.toBeUndefined();
    });
  }
});
