import { expect, test } from 'vitest';
import { expectCleanEnd, runTour } from '../../../test/tours.js';

const main = new URL('../src/main.ts', import.meta.url);

test('000-34 npm start shows the policies, what they remove and when, and leaves nothing behind', async () => {
  const { code, stdout, stderr, files } = await runTour(main);

  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toContain('Retention Period   24 hours     Keep jobs for debugging/history');
  const [inMemory = '', inFiles = ''] = stdout.split('Artifacts in files');
  expect(inMemory).toContain('Artifacts in memory');
  expect(inMemory).toContain('20 jobs in memory (20 completed), 80 artifacts in memory');
  expect(inMemory).toContain('[log] Removed 20 old jobs from memory');
  expect(inMemory).toContain('5 jobs in memory (5 completed), 20 artifacts in memory');
  expect(inMemory).toContain('1000 jobs in memory (1000 completed), 0 artifacts in memory');
  expect(inFiles).toContain('20 jobs in memory (20 completed), 80 files');
  expect(inFiles).toContain('[log] Removed 20 old jobs from memory');
  expect(inFiles).toContain('0 jobs in memory (0 completed), 0 files');
  expect(stdout.match(/created = released \+ stored/g)).toHaveLength(2);
  expect(files).toEqual([]);
});

for (const [signal, moments] of [
  ['SIGTERM', ['Artifacts in memory', 'The first dossiers', 'Far more small jobs', 'Artifacts in files']],
  ['SIGINT', ['Opening the queue', 'Half a day', 'No hour had to pass', 'Once more, as files']],
] as const) {
  test(`${signal} ends it at any moment, and nothing is left`, async () => {
    for (const on of moments) await expectCleanEnd(main, { kill: { signal, on, group: true } });
  });
}

test('it ends when nobody reads what it says, and names the variable that leaves it without a folder', async () => {
  const deaf = await runTour(main, { deaf: 'Opening' });
  expect(deaf).toMatchObject({ code: 141, stderr: '', files: [], processes: [] });
  const homeless = await runTour(main, { env: { TMPDIR: '/proc/none' } });
  expect(homeless).toMatchObject({ code: 1, stderr: expect.stringMatching(/^TMPDIR: ENOENT.*\n$/), files: [] });
});
