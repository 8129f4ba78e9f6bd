/**
 * A program with many old jobs that starts their cleanup and has nothing else to do: `node sweep-child.js
 * [nothing|stop|sweep|close]` says what it awaits. It prints what the cleanup says.
 */
import { open } from '../src/index.js';

const [awaits = 'nothing'] = process.argv.slice(2);
const print = (line: string): void => void process.stdout.write(`${line}\n`);
const quiet = (): void => undefined;
const logger = { debug: quiet, info: print, warn: print, error: print };
const queue = await open('memory:', { logger, cleanup: { jobRetentionMs: 0, maxStoredJobs: 100_000 } });
await queue.stopPeriodicCleanup();
for (let i = 0; i < 20; i++) {
  await queue.enqueueMany(Array.from({ length: 1_000 }, () => ({ type: 'old', input: null })));
  await queue.cancel({ type: 'old' });
}
print('started');
queue.startPeriodicCleanup();
if (awaits === 'stop') await queue.stopPeriodicCleanup();
if (awaits === 'sweep') await queue.sweep();
if (awaits === 'close') await queue.close();
print('ended');
