import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { StopReport } from 'lastout';
import { endOnSignals } from './ending.js';
import { Host } from './host.js';
import { createLogger } from './logger.js';
import { Narrator } from './narrator.js';
import { createSiteServer, listen } from './server.js';
import { readSettings, type Settings } from './settings.js';
import { tour } from './tour.js';

const ending = endOnSignals();
const narrator = new Narrator((text) => process.stdout.write(`${text}\n`));
const staying = process.argv.includes('--serve') || (process.stdout.isTTY && !process.argv.includes('--once'));

try {
  await show(readSettings(process.env));
} catch (error) {
  if (error !== ending.reason) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode ??= 1;
  }
}

async function show({ store, port }: Settings): Promise<void> {
  const folder = await naming('TMPDIR', makeFolder);
  const outputDir = join(folder, 'site');
  const logger = createLogger((line) => narrator.log(line));
  const host = await naming('STORE', () => Host.open(store ?? `sqlite:${join(folder, 'jobs.db')}`, { logger }));
  try {
    const kind = store?.replace(/:.*/s, '') ?? 'sqlite';
    narrator.say(`A site builder on ${kind}: every change asks for a build, the queue makes one of many.\n`);
    await tour(host, outputDir, narrator, ending);
    if (staying) await serve(outputDir, port);
  } finally {
    await leave(host);
  }
}

/** Entities live in memory here, so the store and the pages need not outlive the process either. */
function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'lastout-site-'));
  // Whatever ends the process, a crash too, this is heard.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function serve(outputDir: string, port: number): Promise<void> {
  const server = createSiteServer(outputDir);
  await naming('PORT', () => listen(server, port));
  narrator.say(`\nThe site is at http://127.0.0.1:${(server.address() as AddressInfo).port}/ - Ctrl-C ends it.`);
  if (!ending.aborted) await once(ending, 'abort');
  const closed = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await closed;
}

async function leave(host: Host): Promise<void> {
  let leftBehind: number;
  let report: StopReport;
  try {
    ({ leftBehind } = await host.queue.stats());
  } finally {
    report = await host.shutdown();
  }
  narrator.goodbye(report, host.bus.subscriptionCount, leftBehind);
}

/** What fails for the sake of a variable says which one. */
async function naming<T>(variable: string, attempt: () => T | Promise<T>): Promise<T> {
  try {
    return await attempt();
  } catch (error) {
    throw new Error(`${variable}: ${(error as Error).message}`, { cause: error });
  }
}
