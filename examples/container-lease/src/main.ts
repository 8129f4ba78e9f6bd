import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Docker from 'dockerode';
import { App } from './app.js';
import { type Config, readConfig } from './config.js';
import type { EngineApi } from './docker.js';
import { createLogger } from './logger.js';
import { missing, tour } from './tour.js';

const say = (text: string): void => void process.stdout.write(`${text}\n`);

try {
  const args = process.argv.slice(2);
  const unknown = args.find((arg) => arg !== '--serve');
  if (unknown !== undefined) throw new Error(`There is no argument ${unknown}: give --serve, or none for the tour`);
  const config = readConfig(process.env);
  if (args.includes('--serve')) await serve(config);
  else await show(config);
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}

/** `npm run serve`: the server, and the cleanup worker beside it, until it is told to end. */
async function serve(config: Config): Promise<void> {
  const logger = createLogger(config.logLevel, (entry) => say(JSON.stringify(entry)));
  await using app = await App.open(config, logger, { docker: connect(config) });
  logger.info('listening', { address: await app.start() });
  await toldToEnd();
}

/** `npm start`: shows what it does on a store of its own, and leaves nothing on the engine. */
async function show(config: Config): Promise<void> {
  const docker = connect(config);
  const why = await missing(docker, config);
  if (why) {
    say(why);
    return;
  }
  const folder = await mkdtemp(join(tmpdir(), 'lastout-containers-'));
  const logger = createLogger('info', (entry) => say(`  ${JSON.stringify(entry)}`));
  try {
    // A namespace of its own: to this store, the containers of a server that runs elsewhere would be nobody's.
    const own = { storeUrl: `sqlite:${join(folder, 'jobs.db')}`, namespace: `tour-${randomUUID()}`, port: 0 };
    await tour({ ...config, ...own }, docker, logger, say);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function connect({ dockerHost }: Config): EngineApi {
  // DOCKER_HOST is the client's own variable; one that is not set means its default.
  process.env.DOCKER_HOST ??= dockerHost;
  return new Docker();
}

async function toldToEnd(): Promise<void> {
  await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
}
