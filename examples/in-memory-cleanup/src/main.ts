import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineJob, type JobType } from 'lastout';
import { fakeClock } from 'lastout/testing';
import { dossier, type Pitch } from './dossier.js';
import { InMemoryJobQueue } from './in-memory-job-queue.js';
import { formatTable, policyTable } from './policy-table.js';

// Hours would pass before anything is to be seen, so the clock is moved by hand. All else is as in production.
const clock = fakeClock(new Date());
const dir = await mkdtemp(join(tmpdir(), 'lastout-in-memory-'));
const say = (text: string): void => void process.stdout.write(`${text}\n`);
/** What was logged since it was last shown, and how often. */
const logged = new Map<string, number>();
const log = (message: string): void => void logged.set(message, (logged.get(message) ?? 0) + 1);
const logger = { debug: () => {}, info: log, warn: log, error: log };

/** As many jobs as one likes, without a file each. */
const ping = defineJob<Pitch, null>('ping', { run: () => null });

say('Opening the queue; its cleanup starts by itself');
const jobs = await InMemoryJobQueue.open({}, { clock, logger, artifacts: { dir } });
try {
  await clock.settle();
  tellLog();
  say(`\n${formatTable(policyTable(jobs.config))}\n`);

  await write(dossier, 20, 'The first dossiers: each leaves three sections and a cached result, as files');
  await pass(12, 'Half a day later they are all there');
  await write(dossier, 5, 'Five more');
  await pass(13, 'After 25 hours the first ones go, files first');
  await write(ping, 1_100, 'Far more small jobs than the limit of 1000');
  await clock.advance(1_000);
  await show('No hour had to pass: the oldest went at once');
} finally {
  const { clean } = await jobs.queue.audit();
  await jobs.queue.close({ grace: 0 });
  await rm(dir, { recursive: true, force: true });
  say(`\nGood night. The books ${clean ? 'are balanced: created = released + stored' : 'do NOT balance'}.`);
}

async function write(type: JobType<Pitch, unknown>, count: number, title: string): Promise<void> {
  say(title);
  const worker = await jobs.work([type], 20);
  for (let n = 1; n <= count; n++) await jobs.add(type, { title: `Number ${n}`, pitch: 'Bread that bakes itself.' });
  for (let busy = true; busy; busy = await isBusy()) await clock.advance(1);
  await worker.stop();
  await show('');
}

async function pass(hours: number, title: string): Promise<void> {
  say(title);
  await clock.advance(`${hours}h`);
  await show('');
}

async function isBusy(): Promise<boolean> {
  const { queued, running } = await jobs.stats();
  return queued + running > 0;
}

async function show(title: string): Promise<void> {
  if (title !== '') say(title);
  tellLog();
  const { completed, total } = await jobs.stats();
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  const files = entries.filter(({ name }) => /^[0-9a-z]{20}$/.test(name)); // beside them is a marker that says whose folder it is
  say(`  ${total} jobs in memory (${completed} completed), ${files.length} files\n`);
}

function tellLog(): void {
  for (const [message, times] of logged) say(`  [log] ${message}${times > 1 ? ` (${times} times)` : ''}`);
  logged.clear();
}
