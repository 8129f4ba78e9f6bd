// `npm start` as a child process, and the look into the file that its last line rests on.
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { type Expected, readBack, verdict } from '../demo/verify.js';
import { defineJob, open, type Queue } from '../src/index.js';

const root = fileURLToPath(new URL('..', import.meta.url));

function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'lastout-demo-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test('the demo ends well, says so in its last line and leaves no file', async () => {
  const folder = temporaryFolder();
  const { code, stdout, stderr } = await runDemo(folder);
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
  expect(readdirSync(folder).filter((name) => name.startsWith('lastout'))).toEqual([]);
}, 60_000);

function runDemo(tmp: string): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const env = { ...process.env, TMPDIR: tmp, NODE_OPTIONS: '' };
    execFile(process.execPath, ['--import', 'tsx', 'demo/main.ts'], { cwd: root, env }, (error, stdout, stderr) => {
      resolve({ code: error ? Number(error.code ?? 1) : 0, stdout, stderr });
    });
  });
}

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
