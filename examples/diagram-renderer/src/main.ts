import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { App } from './app.js';
import { type Config, readConfig } from './config.js';
import { createLogger, jsonLine } from './logger.js';
import { tour } from './tour.js';

const say = (text: string): void => void process.stdout.write(`${text}\n`);

try {
  const config = readConfig(process.env);
  if (process.argv.includes('--serve')) await serve(config);
  else await show(config);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}

/** `npm run serve`: the server, until it is told to end. */
async function serve(config: Config): Promise<void> {
  const logger = createLogger(config.logLevel, (line) => say(jsonLine(line)));
  await using app = await App.open(config, logger);
  const address = await app.start();
  say(jsonLine({ level: 'info', message: 'Listening', fields: { address } }));
  await toldToEnd();
}

/** `npm start`: shows what the server does, and in a terminal goes on serving. */
async function show(config: Config): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'lastout-diagrams-'));
  const staying = process.stdout.isTTY && !process.argv.includes('--once');
  // Few slots, so that they are soon taken. Nothing of the tour is meant to outlive it.
  const own = {
    jobDbPath: join(folder, 'jobs.db'),
    queueMaxConcurrent: 2,
    queueMaxWaiting: 2,
    renderTimeoutMs: 60_000,
  };
  const logger = createLogger('warn', ({ message, fields }) => say(`  [log] ${message} ${JSON.stringify(fields)}`));
  try {
    await using app = await App.open({ ...config, ...own, port: staying ? config.port : 0 }, logger);
    const address = await app.start();
    await tour(app, address, say);
    if (staying) {
      say(`\nThe server is at ${address} - Ctrl-C ends it.`);
      await toldToEnd();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  say('Good night.');
}

async function toldToEnd(): Promise<void> {
  await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
}
