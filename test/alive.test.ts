/** Whoever works, waits or follows keeps its process alive; housekeeping does not; and after close() it ends at once. */
import { spawn } from 'node:child_process';
import { describe, expect, it, onTestFinished } from 'vitest';
import { compilePrograms } from './programs.js';
import { eachStore, type OnStore } from './support.js';

const program = compilePrograms().alive;

/** Less than any rhythm, poll or deadline of the library that could hold a process back. */
const atOnceMs = 4_000;

async function start(on: OnStore, mode: string) {
  const child = spawn(process.execPath, [program, mode, await on.url()], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  let said = '';
  let saidAt = Date.now();
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
    saidAt = Date.now();
  });
  const exited = new Promise<{ code: number | null; said: string; afterMs: number }>((resolve) => {
    child.once('close', (code) => resolve({ code, said: said.trim(), afterMs: Date.now() - saidAt }));
  });
  return { child, exited };
}

describe('a process', () => {
  eachStore((on) => {
    it('lives as long as its worker, and ends when its queue is closed', async () => {
      const { exited } = await start(on, 'worker');
      const { code, said, afterMs } = await exited;
      expect({ code, said }).toEqual({ code: 0, said: 'closed' });
      expect(afterMs).toBeLessThan(atOnceMs);
    });

    it.each(['stopped', 'unref', 'housekeeping'])('ends by itself with nothing to hold it: %s', async (mode) => {
      const { exited } = await start(on, mode);
      expect(await exited).toMatchObject({ code: 0, said: '' });
    });

    it('that waits for a signal lives until it comes, also without a worker', async () => {
      const { child, exited } = await start(on, 'signals');
      await new Promise((resolve) => child.stdout.once('data', resolve));
      child.kill('SIGTERM');
      expect(await exited).toMatchObject({ code: 0, said: 'ready\nclosed, 0 finished' });
    });

    it('that waits for a signal ends when its queue is closed by hand', async () => {
      const { exited } = await start(on, 'closedByHand');
      const { code, said, afterMs } = await exited;
      expect({ code, said }).toEqual({ code: 0, said: 'closed' });
      expect(afterMs).toBeLessThan(atOnceMs);
    });
  });
});
