import { test } from 'vitest';
import { expectEveryItem } from '../../../test/checklist.js';

test('001-48 every item of the checklist has a test', async () => {
  await expectEveryItem(import.meta.dirname, '001');
});
