import { mkdtemp, rm } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { App } from './app.js';
import { type Config, readConfig } from './config.js';
import { createLogger, jsonLine } from './logger.js';
import { tour } from './tour.js';

const say = (text: string): void => void process.stdout.write(`${text}\n`);

/** Resolves with the first signal that tells the program to end. Who listens before anything is made can undo it all. */
const told = new Promise<'SIGINT' | 'SIGTERM' | 'SIGHUP'>((resolve) => {
  // For ever, as npm and the terminal may both send it: the second one must not break off the cleaning up.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => resolve(signal));
});

try {
  const config = readConfig(process.env);
  // Connections that `fetch` keeps open would hold the process for seconds more.
  process.exit(process.argv.includes('--serve') ? await serve(config) : await show(config));
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
}

/** `npm run serve`: the server, until it is told to end. */
async function serve(config: Config): Promise<number> {
  const logger = createLogger(config.logLevel, (line) => say(jsonLine(line)));
  await using app = await App.open(config, logger);
  const address = await app.start();
  say(jsonLine({ level: 'info', message: 'Listening', fields: { address } }));
  await told;
  return 0;
}

/** `npm start`: shows what the server does, and in a terminal goes on serving. */
async function show(config: Config): Promise<number> {
  const staying = process.stdout.isTTY && !process.argv.includes('--once');
  const folder = await mkdtemp(join(tmpdir(), 'lastout-diagrams-'));
  try {
    // Few slots, so that they are soon taken. Nothing of the tour is meant to outlive it.
    const own = {
      jobDbPath: join(folder, 'jobs.db'),
      queueMaxConcurrent: 2,
      queueMaxWaiting: 2,
      renderTimeoutMs: 60_000,
    };
    const logger = createLogger('warn', ({ message, fields }) => say(`  [log] ${message} ${JSON.stringify(fields)}`));
    await using app = await App.open({ ...config, ...own, port: staying ? config.port : 0 }, logger);
    const address = await app.start();
    const signal = await Promise.race([told, tour(app, address, say)]);
    if (signal !== undefined) return 128 + constants.signals[signal];
    if (staying) {
      say(`\nThe server is at ${address} - Ctrl-C ends it.`);
      await told;
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  say('Good night.');
  return 0;
}
