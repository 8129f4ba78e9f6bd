import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Host } from './host.js';
import { createLogger } from './logger.js';
import { createSiteServer } from './server.js';
import { Narrator } from './narrator.js';
import { tour } from './tour.js';

// Entities live in memory here, so the store and the pages need not outlive the process either.
const folder = await mkdtemp(join(tmpdir(), 'lastout-site-'));
const store = process.env['STORE'] ?? `sqlite:${join(folder, 'jobs.db')}`;
const outputDir = join(folder, 'site');
const serve = process.stdout.isTTY && !process.argv.includes('--once');

const narrator = new Narrator((text) => process.stdout.write(`${text}\n`));
const host = await Host.open(store, { logger: createLogger((line) => narrator.log(line)) });
try {
  narrator.say(
    `A site builder on ${store.replace(/:.*/s, '')}: every change asks for a build, the queue makes one of many.\n`,
  );
  await tour(host, outputDir, narrator);
  if (serve) await serveUntilSignal();
} finally {
  const { leftBehind } = await host.queue.stats();
  const report = await host.shutdown();
  await rm(folder, { recursive: true, force: true });
  narrator.goodbye(report, host.bus.subscriptionCount, leftBehind);
}

async function serveUntilSignal(): Promise<void> {
  const server = createSiteServer(outputDir).listen(Number(process.env['PORT'] ?? 4600), '127.0.0.1');
  await once(server, 'listening');
  narrator.say(`\nThe site is at http://127.0.0.1:${(server.address() as AddressInfo).port}/ - Ctrl-C ends it.`);
  await new Promise((resolve) => process.once('SIGINT', resolve).once('SIGTERM', resolve));
  const closed = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await closed;
}
