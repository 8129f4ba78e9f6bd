/** Failures are seen: lines on stderr where there is no logger, and nothing else. */
import { execFile, spawnSync } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it, vi } from 'vitest';
import { defineJob } from '../src/index.js';
import { lineLogger } from '../src/observe/lines.js';
import { createSystem } from '../src/system.js';
import { fakeClock, testQueue } from '../src/testing/index.js';
import { compilePrograms } from './programs.js';
import { eachStore, recordingLogger } from './support.js';

const program = compilePrograms().failures;

/** What a process of its own says, where stderr is no terminal. */
async function saidBy(url: string, mode: string): Promise<readonly Record<string, unknown>[]> {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [program, url, mode]);
  expect(stdout).toBe('');
  return stderr
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}
const few = (lines: readonly Record<string, unknown>[]) =>
  lines.map(({ level, message, type, code, attempt, error, leftOut }) => [
    ...[level, message, type, code, attempt],
    leftOut ?? error,
  ]);

describe('without a logger', () => {
  eachStore((on) => {
    it('each job that fails and each attempt that is repeated is one line, and what is left out is counted', async () => {
      const lines = await saidBy(await on.url(), 'none');
      expect(few(lines)).toEqual([
        ['error', 'Job failed', 'says-no', 'NO', 1, 'not for Ann'],
        ['warn', 'Job is tried again', 'throws', 'QUOTA', 1, 'quota of Ann\nreached'],
        ['error', 'Job failed', 'throws', 'QUOTA', 2, 'quota of Ann\nreached'],
        ...Array.from({ length: 10 }, () => ['error', 'Job failed', 'many', undefined, 1, 'again']),
        ['error', 'Job failed', 'many', undefined, undefined, 15],
      ]);
      expect(lines[0]).toEqual({
        ...{ at: expect.any(String), level: 'error', from: 'lastout', message: 'Job failed', id: expect.any(String) },
        ...{ type: 'says-no', code: 'NO', attempt: 1, maxAttempts: 3, error: 'not for Ann' },
      });
    });

    it('a job that is given up because it ends its workers is one line, of the process that has given it up', async () => {
      if (on.engine === 'memory') return; // nobody outlives its process
      const url = await on.url();
      const { signal } = spawnSync(process.execPath, [program, url, 'dies']);
      expect(signal).toBe('SIGKILL');
      expect(await saidBy(url, 'survives')).toEqual([
        {
          ...{ at: expect.any(String), level: 'error', from: 'lastout', message: 'Job failed', id: 'poisoned' },
          ...{ type: 'poison', code: 'STALLED', stalls: 1, error: 'Its worker went silent 1 time while it ran' },
        },
      ]);
    });

    it('a failure of a coded job is told by its code, its type and its id', async () => {
      const lines = await saidBy(await on.url(), 'coded');
      expect(lines).toHaveLength(14);
      for (const { at, level, from, message, leftOut, ...told } of lines)
        expect(Object.keys(told).filter((name) => !['id', 'type', 'code'].includes(name))).toEqual([]);
      expect(JSON.stringify(lines)).not.toContain('Ann');
    });
  });

  it('with false there is silence', async () => {
    expect(await saidBy('memory:', 'silent')).toEqual([]);
  });

  it('a test queue is silent too', async () => {
    const said = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    await using at = await testQueue();
    const type = defineJob<null>('fails', { attempts: 1, run: () => Promise.reject(new Error('no')) });
    await at.queue.work([type]);
    const { id } = await at.queue.enqueue(type, null);
    await at.clock.settle();
    expect((await at.queue.get(id))!.state).toBe('failed');
    expect(said).not.toHaveBeenCalled();
    said.mockRestore();
  });
});

describe('a given logger', () => {
  eachStore((on) => {
    it('is told the same, each one; what was cancelled or replaced did not fail', async () => {
      const { lines, logger } = recordingLogger();
      const { queue, clock } = await on.still({ logger });
      const fails = defineJob<null>('fails', { attempts: 1, run: () => Promise.reject(new Error('no')) });
      const held = defineJob<null>('held', {
        attempts: 1,
        run: ({ signal }) =>
          new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))),
      });
      const later = defineJob<null>('later', { deduplication: 'replace' });
      await queue.work([fails, held]);
      await queue.enqueue(later, null, { delay: '1h' });
      await queue.enqueue(later, null, { delay: '1h' });
      const { id } = await queue.enqueue(held, null);
      await clock.settle();
      await queue.cancel(id);
      await queue.enqueueMany(Array.from({ length: 25 }, () => ({ type: fails, input: null })));
      await clock.settle();
      await clock.advance(1_000);
      expect((await queue.get(id))!.state).toBe('cancelled');
      expect((await queue.stats()).total).toMatchObject({ processing: 0, failed: 26 });
      const failed = lines.filter(({ level }) => level === 'error' || level === 'warn');
      expect(failed.map(({ message }) => message)).toEqual(Array.from({ length: 25 }, () => 'Job failed'));
    });
  });
});

describe('lines', () => {
  const stage = (isTerminal: boolean) => {
    const clock = fakeClock();
    const lines: string[] = [];
    const logger = lineLogger(createSystem(clock), { isTerminal, write: (line) => lines.push(line) });
    return { clock, lines, logger };
  };

  it('are text on a terminal, one line whatever stands in it', () => {
    const { lines, logger } = stage(true);
    logger.error('Job failed', { id: '1', error: 'a\nb \u001b[2J \u009b2J \u2028' });
    logger.warn('Alone');
    logger.info('Not told');
    logger.debug('Not told');
    expect(lines).toEqual([
      '2030-01-01T00:00:00.000Z lastout error: Job failed id="1" error="a\\nb \\u001b[2J  2J  "',
      '2030-01-01T00:00:00.000Z lastout warn: Alone',
    ]);
  });

  it('of one message about one type are ten in 10 s; the others are counted when these are over', async () => {
    const { clock, lines, logger } = stage(false);
    for (let n = 0; n < 12; n++) logger.error('Job failed', { type: 'a', n });
    for (let n = 0; n < 10; n++) logger.error('Job failed', { type: 'b', n });
    logger.warn('Job failed', { type: 'a', n: 0 });
    expect(lines).toHaveLength(21);
    await clock.advance(10_000);
    expect(lines.slice(21).map((line) => JSON.parse(line) as unknown)).toEqual([
      { at: '2030-01-01T00:00:10.000Z', level: 'error', from: 'lastout', message: 'Job failed', type: 'a', leftOut: 2 },
    ]);
    logger.error('Job failed', { type: 'a', n: 12 });
    expect(lines).toHaveLength(23);
  });
});
