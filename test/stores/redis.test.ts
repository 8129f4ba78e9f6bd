// Every rule of the store contract, on Redis, each in an empty database.
import { expect, it } from 'vitest';
import { storeCases } from '../../src/testing/index.js';
import { describeOn } from '../engines.js';
import { harnessOf } from './harness.js';

describeOn('redis', 'redis', () => {
  for (const { name, run } of storeCases) {
    it(name, async () => {
      const harness = await harnessOf('redis');
      await expect(run(harness).finally(() => harness.dispose())).resolves.toBeUndefined();
    });
  }
});
