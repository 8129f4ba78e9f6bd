// `npm start` as a child process, and the look into the file that its last line rests on.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type Expected, readBack, verdict } from '../demo/verify.js';
import { defineJob, open, type Queue } from '../src/index.js';
import { expectCleanEnd, runTour } from './tours.js';

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'lastout-demo-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const main = new URL('../demo/main.ts', import.meta.url);

test('the demo ends well, says so in its last line and leaves no file', async () => {
  const { code, stdout, stderr, files, processes } = await runTour(main);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  const lines = stdout.trimEnd().split('\n');
  expect(lines.at(-1)).toBe('nothing left behind');
  expect(stdout).toContain('51 changes, 2 builds');
  expect(stdout).toContain('attempts 1, stalls 1');
  expect(stdout).toContain('4 cancelled at once, 1 requested');
  expect(stdout).toContain('9 finished jobs (4 completed, 5 cancelled)');
  // No colours, since nobody looks; and lines that fit.
  expect(stdout).not.toContain('\u001b');
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(100);
  expect({ files, processes }).toEqual({ files: [], processes: [] });
});

for (const [signal, group, moments] of [
  ['SIGTERM', false, ['lastout, the job queue', 'build 1 starts', 'kill -9:', 'is half through', 'has taken over']],
  ['SIGINT', true, ['change 1:', 'build 2 starts', 'worker B is ready', 'is killed', 'more wait for trip:42']],
] as const) {
  test(`${signal} ends the demo at any moment: no file and no process is left`, async () => {
    await Promise.all(moments.map((on) => expectCleanEnd(main, { kill: { signal, on, group } })));
  });
}

test('the workers of a demo that was killed end by themselves', async () => {
  for (const on of ['kill -9:', 'is half through']) {
    const { code, stderr, stillRunning } = await runTour(main, { kill: { signal: 'SIGKILL', on } });
    expect({ code, stderr }).toEqual({ code: null, stderr: '' });
    await expect.poll(stillRunning, { timeout: 10_000 }).toEqual([]);
  }
});

test('the demo ends when nobody reads what it says, or when there is no temporary folder', async () => {
  const deaf = await runTour(main, { deaf: 'half through' });
  expect(deaf).toMatchObject({ code: 141, stderr: '', files: [], processes: [] });
  const homeless = await runTour(main, { env: { TMPDIR: '/proc/none' } });
  expect(homeless).toMatchObject({ code: 1, stderr: expect.stringMatching(/^TMPDIR: ENOENT.*\n$/), files: [] });
});

const note = defineJob<{ n: number }, { n: number }>('note', { run: ({ input }) => input });

/** A file with one job that has completed, and what `plant` leaves in it besides. */
async function fileWith(plant: (queue: Queue) => Promise<unknown> = async () => undefined) {
  const file = join(temporaryFolder(), 'jobs.db');
  const queue = await open(`sqlite:${file}`);
  const { id } = await queue.enqueue(note, { n: 1 });
  const worker = await queue.work([note]);
  await queue.wait(id);
  await worker.stop();
  await plant(queue);
  await queue.close();
  const expected: Expected = { id, type: 'note', state: 'completed', attempts: 1, stalls: 0, result: { n: 1 } };
  return { file, expected };
}

test('a file with what is expected and nothing else passes', async () => {
  const { file, expected } = await fileWith();
  const found = await readBack(file, [expected]);
  expect(found).toEqual({ faults: [], finished: 1, byState: { completed: 1 } });
  expect(verdict(found)).toEqual({ lines: ['nothing left behind'], code: 0 });
});

test('a job that still waits is found, whatever the queue would say', async () => {
  const { file, expected } = await fileWith((queue) => queue.enqueue(note, { n: 2 }));
  const found = await readBack(file, [expected]);
  expect(found.faults).toEqual(['1 live job in the file', '1 pending entry in the file']);
  expect(verdict(found)).toEqual({
    lines: ['left behind:', '  1 live job in the file', '  1 pending entry in the file'],
    code: 1,
  });
});

test('a job that was left running is found by its claim', async () => {
  const { file, expected } = await fileWith(async (queue) => {
    const hangs = defineJob('hangs', { exclusiveKey: 'one', run: () => new Promise<null>(() => undefined) });
    const begun = new Promise<void>((resolve) => queue.on('claimed', () => resolve()));
    await queue.work([hangs]);
    await queue.enqueue(hangs, null);
    await begun;
    // A handler with an exclusive key that does not return keeps its claim.
    await queue.close({ grace: 0 });
  });
  const { faults } = await readBack(file, [expected]);
  expect(faults).toEqual(['1 live job in the file', '1 claim in the file', '1 turn of an exclusive key in the file']);
});

test('a finished job that nobody expects, one that is missing, and one that ended otherwise are found', async () => {
  const { file, expected } = await fileWith(async (queue) => {
    const { id } = await queue.enqueue(note, { n: 3 }, { id: 'surplus-0123456789' });
    await queue.cancel(id);
  });
  const missing: Expected = { id: 'nowhere', type: 'note', state: 'completed' };
  const { faults } = await readBack(file, [{ ...expected, state: 'cancelled', stalls: 1, result: { n: 9 } }, missing]);
  expect(faults).toEqual([
    `note ${expected.id}: state is completed and should be cancelled`,
    `note ${expected.id}: stalls is 0 and should be 1`,
    `note ${expected.id}: result is {"n":1} and should be {"n":9}`,
    'note surplus-0123456789 is cancelled, and nobody knows of it',
    'note nowhere should be completed and is not there',
  ]);
});
