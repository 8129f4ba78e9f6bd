import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import Docker from 'dockerode';
import { App } from './app.js';
import { type Config, readConfig } from './config.js';
import { createEngine, type EngineApi } from './docker.js';
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
  // From here on there is something to leave behind: a signal ends the step that is under way, and then everything.
  const told = firstSignal();
  const folder = await mkdtemp(join(tmpdir(), 'lastout-containers-'));
  const logger = createLogger('info', (entry) => say(`  ${JSON.stringify(entry)}`));
  // A namespace of its own: to this store, the containers of a server that runs elsewhere would be nobody's.
  const namespace = `tour-${randomUUID()}`;
  const own = { storeUrl: `sqlite:${join(folder, 'jobs.db')}`, namespace, host: '127.0.0.1', port: 0, token: null };
  try {
    await tour({ ...config, ...own }, docker, logger, say, told);
  } catch (error) {
    if (!told.aborted) throw error;
    process.exitCode = told.reason as number;
  } finally {
    await removeAll(docker, namespace).finally(() => rm(folder, { recursive: true, force: true }));
  }
}

/** Those of a tour that was broken off: its store, which knows of them, goes as well. */
async function removeAll(docker: EngineApi, namespace: string): Promise<void> {
  const engine = createEngine(docker, namespace);
  for (const id of (await engine.states()).keys()) await engine.removeContainer(id, AbortSignal.timeout(30_000));
}

/** Aborts at the first signal; the reason is what the process then exits with. A terminal and npm may each pass on the same one. */
function firstSignal(): AbortSignal {
  const told = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.on(signal, () => told.abort(128 + constants.signals[signal]));
  return told.signal;
}

function connect({ dockerHost }: Config): EngineApi {
  // DOCKER_HOST is the client's own variable; one that is not set means its default.
  process.env.DOCKER_HOST ??= dockerHost;
  return new Docker();
}

async function toldToEnd(): Promise<void> {
  await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
}
