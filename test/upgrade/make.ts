/**
 * Writes the data of this version of lastout into test/fixtures: `npm run fixtures`, once per release. Upgrades are tested
 * against them ever after, so a folder that is there is not written again.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { postgresPrograms, redisPrograms } from '../../scripts/services/index.mjs';
import { startPostgres } from '../../scripts/services/postgres.mjs';
import { startRedis } from '../../scripts/services/redis.mjs';
import { loadDriver } from '../../src/stores/sqlite/driver.js';
import { keptCodec } from './jobs.js';
import { populate } from './populate.js';
import { filesIn, type Namespace, namespaces, type Stored, type StoredOn, writeStored } from './stored.js';
import { viewOf } from './view.js';

const run = promisify(execFile);
const root = join(import.meta.dirname, '..', '..');
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
if (existsSync(join(root, 'test', 'fixtures', version)))
  throw new Error(`test/fixtures/${version} is there already: what a version has written stays as it is.`);

// Under a clock that is moved by hand nothing else keeps this process alive.
const stayAlive = setInterval(() => undefined, 60_000);
const folder = mkdtempSync(join(tmpdir(), 'lastout-'));
try {
  const file = join(folder, 'jobs.db');
  await make('sqlite', `sqlite:${file}`, async () => {
    const { DatabaseSync } = await loadDriver();
    const db = new DatabaseSync(file);
    db.exec(`vacuum into '${join(folder, 'copy.db')}'`);
    db.close();
    return readFileSync(join(folder, 'copy.db')).toString('base64');
  });

  const postgres = programsOf(await postgresPrograms());
  const server = await startPostgres(postgres);
  await make('postgres', server.url, async () => {
    const options = ['--inserts', '--no-owner', '--no-privileges', '--dbname', server.url];
    const { stdout } = await run(join(postgres.home, postgres.bin, 'pg_dump'), options, { maxBuffer: 2 ** 30 });
    return stdout
      .split('\n')
      .filter((line) => !/^(\\|--|$)/.test(line))
      .join('\n');
  });
  await server.dispose();

  const redis = await startRedis(programsOf(await redisPrograms()));
  await make('redis', redis.url, async () => {
    const client = new Redis(redis.url);
    const keys = (await client.keys('*')).sort();
    const dumps = await Promise.all(keys.map(async (key) => [key, (await client.dumpBuffer(key)).toString('base64')]));
    client.disconnect();
    return JSON.stringify(Object.fromEntries(dumps));
  });
  await redis.dispose();
} finally {
  rmSync(folder, { recursive: true, force: true });
  clearInterval(stayAlive);
}

/** Taken while a worker is in the middle of its work. */
async function make(engine: StoredOn, url: string, dump: () => Promise<string>): Promise<void> {
  const places = namespaces.map((namespace) => ({ url, namespace, dir: join(folder, engine, namespace) }));
  const populated = [];
  for (const place of places)
    populated.push(await populate({ ...place, ...(place.namespace === 'coded' && keptCodec) }));
  const told: [Namespace, Stored['namespaces'][Namespace]][] = [];
  for (const [index, { queue, clock, boxes }] of populated.entries()) {
    const { namespace, dir } = places[index]!;
    told.push([namespace, { view: await viewOf(queue), files: filesIn(dir), boxes, at: clock.now().toISOString() }]);
  }
  const stored: Stored = { data: await dump(), namespaces: Object.fromEntries(told) as Stored['namespaces'] };
  for (const { close } of populated) await close();
  console.log(`${engine}: ${writeStored(version, engine, stored)} bytes`);
}

function programsOf<T>(found: { programs: T } | { why: string }): T {
  if ('why' in found) throw new Error(found.why);
  return found.programs;
}
