// The servers of the tests themselves: they are there when they are said to be, and nothing of them outlives its owner.
import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { isReachable } from '../scripts/services/folders.mjs';
import { isAlive } from '../scripts/services/guard.mjs';
import { exitCodeOf, outcomeWithout } from '../scripts/outcome.mjs';
import {
  findService,
  postgresPrograms,
  programVariables,
  redisPrograms,
  startService,
  variables,
} from '../scripts/services/index.mjs';
import { ask as askPostgres } from '../scripts/services/postgres.mjs';
import { ask as askRedis } from '../scripts/services/redis.mjs';
import {
  emptyPostgres,
  emptyRedis,
  isServed,
  postgresUrl,
  privatePostgres,
  privateRedis,
  redisUrl,
} from './services.js';
import { eventually } from './worker-support.js';

const scripts = fileURLToPath(new URL('../scripts/services/', import.meta.url));

/** A process that starts both servers, says their ids, and waits to be killed. */
const owner = `
  import { postgresPrograms, redisPrograms } from '${scripts}index.mjs';
  import { startPostgres } from '${scripts}postgres.mjs';
  import { startRedis } from '${scripts}redis.mjs';
  const started = await Promise.all([
    startPostgres((await postgresPrograms()).programs),
    startRedis((await redisPrograms()).programs),
  ]);
  console.log(JSON.stringify(started.map((server) => server.pid())));
  setInterval(() => undefined, 1000);
`;

async function saidBy(program: string, env: NodeJS.ProcessEnv): Promise<{ child: ChildProcess; line: string }> {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  for await (const line of createInterface({ input: child.stdout })) return { child, line };
  throw new Error('It ended without a word');
}

async function startOwner(folder: string): Promise<{ child: ChildProcess; pids: number[] }> {
  const { child, line } = await saidBy(owner, { TMPDIR: folder });
  return { child, pids: JSON.parse(line) as number[] };
}

const areThere = 'programs' in (await postgresPrograms()) && 'programs' in (await redisPrograms());

describe.skipIf(!areThere)('servers of a process', () => {
  it.each(['SIGKILL', 'SIGINT', 'SIGTERM'] as const)(
    'are gone with their folders after its %s',
    async (signal) => {
      const folder = mkdtempSync(join(tmpdir(), 'lastout-owner-'));
      chmodSync(folder, 0o755);
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      const { child, pids } = await startOwner(folder);
      expect(pids.map(isAlive)).toEqual([true, true]);
      expect(readdirSync(folder)).toHaveLength(2);
      child.kill(signal);
      await eventually(() => !pids.some(isAlive), 'the end of the servers');
      await eventually(() => readdirSync(folder).length === 0, 'the end of their folders');
    },
    60_000,
  );

  it('start again with what they held: PostgreSQL after an immediate stop, Redis after a kill', async () => {
    const [postgres, redis] = await Promise.all([privatePostgres(), privateRedis({ appendfsync: 'always' })]);
    await postgres.stop('immediate');
    await redis.kill();
    await expect(askPostgres(postgres.url)).rejects.toThrow();
    await expect(askRedis(redis.url)).rejects.toThrow();
    await Promise.all([postgres.start(), redis.start()]);
    expect(await askPostgres(postgres.url)).toBe(postgres.version);
    expect(await askRedis(redis.url)).toBe(redis.version);
  }, 60_000);
});

describe('the servers of a run', () => {
  afterEach(() => void vi.unstubAllEnvs());
  const kept = { pid: process.pid, postgres: 'postgres://kept', redis: 'redis://kept', docker: null };

  it.skipIf(!isServed('postgres') || !isServed('redis'))('are those given by variables, whatever is kept', async () => {
    const given = { postgres: postgresUrl(), redis: redisUrl() };
    for (const name of ['postgres', 'redis'] as const) {
      vi.stubEnv(variables[name], given[name]);
      expect(await findService(name, kept)).toMatchObject({ url: given[name] });
      vi.stubEnv(variables[name], undefined);
      expect(await findService(name, kept)).toMatchObject({ url: kept[name] });
    }
  });

  it.skipIf(!isServed('redis'))('are refused where they are not of the version that the run is for', async () => {
    vi.stubEnv(variables.redis, redisUrl());
    vi.stubEnv(programVariables.redis, JSON.stringify({ version: '0.0.1' }));
    await expect(startService('redis')).rejects.toThrow('not 0.0.1');
  });

  it('are started with the programs that were handed on', async () => {
    const programs = { version: '18.4', how: 'handed on' };
    const print = `import { postgresPrograms } from '${scripts}index.mjs';
      console.log(JSON.stringify((await postgresPrograms()).programs));`;
    const { line } = await saidBy(print, { [programVariables.postgres]: JSON.stringify(programs) });
    expect(JSON.parse(line)).toEqual(programs);
  });

  it.each([
    ['network', true, 1],
    ['network', false, 0],
    ['platform', true, 0],
  ] as const)('that lack the %s, needed: %s, end it with code %i', (missing, isNeeded, code) => {
    const outcome = outcomeWithout({ missing, why: 'not here' }, isNeeded);
    expect(outcome).toMatchObject({ result: code === 1 ? 'failed' : 'skipped', why: 'not here' });
    expect(exitCodeOf([{ result: 'ran' }, outcome, { result: 'skipped' }])).toBe(code);
  });
});

describe('folders', () => {
  it('count as reachable only if everybody may enter each of them on the way', () => {
    const folder = mkdtempSync(join(tmpdir(), 'lastout-reach-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    mkdirSync(join(folder, 'inside'));
    const stranger = { uid: statSync(folder).uid + 1, gid: statSync(folder).gid + 1 };
    chmodSync(folder, 0o700);
    expect(isReachable(join(folder, 'inside'), stranger)).toBe(false);
    expect(isReachable(join(folder, 'inside'), null)).toBe(true);
    chmodSync(folder, 0o755);
    expect(isReachable(join(folder, 'inside'), stranger)).toBe(isReachable(tmpdir(), stranger));
  });
});

describe.skipIf(!isServed('postgres') || !isServed('redis'))('empty stores', () => {
  it('are never given to two at once', async () => {
    const urls = await Promise.all([emptyPostgres(), emptyPostgres(), emptyRedis(), emptyRedis()]);
    expect(new Set(urls).size).toBe(4);
  });
});
