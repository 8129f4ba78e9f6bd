// A primary, two replicas and three Sentinels, while another one becomes the primary: what is lost of what was acknowledged, with each setting.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis-5';
import { expect, it, onTestFinished } from 'vitest';
import { open, type OpenOptions, type Queue } from '../../src/index.js';
import { redisStore } from '../../src/stores/redis/index.js';
import { expectTrueCounts } from '../crash/afterwards.js';
import { describeOn } from '../engines.js';
import { privateSentinels, type RedisSentinels, type RedisServer } from '../services.js';
import { type Losses, startLoad } from '../topologies/load.js';
import { plainClient } from './redis-support.js';

type Driver = typeof Redis | typeof Redis5;

/** As users have one: by itself it stays with the old primary. */
function sentinelClient({ options }: RedisSentinels, Client: Driver, more: object = {}): Redis | Redis5 {
  const client = new (Client as new (options: object) => Redis | Redis5)({ ...options, ...more });
  client.on('error', () => undefined);
  onTestFinished(() => client.disconnect());
  return client;
}

async function openQueue(client: Redis | Redis5, options: OpenOptions): Promise<Queue> {
  const queue = await open(redisStore({ client }), options);
  onTestFinished(async () => void (await queue.close({ grace: 0 })));
  return queue;
}

/** How many clients send scripts to it. */
async function callersOf(server: RedisServer): Promise<number> {
  const clients = String(await plainClient(server.url).client('LIST'));
  return [...clients.matchAll(/ cmd=(evalsha|eval|wait) /g)].length;
}

/** A number of how far a server is in the log that its replicas follow. */
async function offsetOf(server: RedisServer, name: 'master_repl_offset' | 'second_repl_offset'): Promise<number> {
  const info = String(await plainClient(server.url).info('replication'));
  return Number(new RegExp(`^${name}:(-?[0-9]+)`, 'm').exec(info)![1]);
}

/** How often the Sentinels have made another one the primary. */
async function changesBy({ sentinels, options }: RedisSentinels): Promise<number> {
  const view = (await plainClient(sentinels[0]!.url).call('sentinel', 'master', options.name!)) as string[];
  return Number(view[view.indexOf('config-epoch') + 1]);
}

const told = ({ acknowledged, lost, repeated, refused }: Losses): string =>
  `${lost.length} of ${acknowledged} acknowledged jobs lost, ${repeated.length} ran again, refused ${JSON.stringify(refused)}`;

describeOn('redis', 'another one becomes the primary under load', () => {
  const ways: readonly (readonly [string, (sentinels: RedisSentinels, primary: RedisServer) => Promise<void>])[] = [
    ['a planned failover', (sentinels) => sentinels.failover()],
    ['a primary that is killed', (_, primary) => primary.kill()],
  ];
  it.each(ways)('%s: with replicas nothing is lost, and nothing runs twice', async (what, happen) => {
    const sentinels = await privateSentinels();
    const [loose, safe] = await Promise.all([
      openQueue(sentinelClient(sentinels, Redis5), { namespace: 'loose' }),
      openQueue(sentinelClient(sentinels, Redis), { namespace: 'safe', replicas: 1 }),
    ]);
    const loads = await Promise.all([startLoad(loose), startLoad(safe)]);
    await Promise.all(loads.map((load) => load.progress(500)));
    const before = await sentinels.primary();
    const atLeast = await offsetOf(before, 'master_repl_offset');
    await happen(sentinels, before);
    await expect.poll(() => sentinels.primary(), { timeout: 20_000 }).not.toBe(before);
    // What a killed primary loses is explained where this is negative, or there was a second change.
    const from = (await offsetOf(await sentinels.primary(), 'second_repl_offset')) - atLeast;
    const where = `the new primary begins at ${from >= 0 ? '+' : ''}${from} bytes, change ${await changesBy(sentinels)}`;
    await Promise.all(loads.map((load) => load.progress(500)));
    if (what === 'a planned failover') {
      // Seconds before the old one knows that it is none: by the word of the Sentinels, on both versions.
      await expect.poll(() => callersOf(before)).toBe(0);
      expect(await plainClient(before.url).role()).toMatchObject(['master', expect.anything(), []]);
    }
    const [some, none] = await Promise.all([loads[0].judgedNow(), loads[1].judged()]);
    console.log(`${what}: ${where}; ${told(some)}; with replicas: 1, ${told(none)}`);
    expect(none).toMatchObject({ lost: [], repeated: [], overlapped: [] });
    expect(['STORE_UNAVAILABLE', 'RESULT_UNKNOWN']).toEqual(expect.arrayContaining(Object.keys(none.refused)));
    expect(none.jobs.filter(({ state }) => state !== 'completed')).toEqual([]);
    expect(await safe.audit()).toMatchObject({ clean: true });
    await expectTrueCounts(safe, none.jobs);
    // What came after the change is kept with either setting.
    expect(some.lost.length).toBeLessThan(some.acknowledged - 500);
  });
});

describeOn('redis', 'a store that is found by Sentinels', () => {
  it('keeps no process alive, prints nothing, and warns of a client that does not follow a failover', async () => {
    const sentinels = await privateSentinels({ replicas: 0 });
    const codes = async (more: object): Promise<readonly string[]> => {
      const queue = await openQueue(sentinelClient(sentinels, Redis, more), {});
      return (await queue.health()).warnings.map(({ code }) => code);
    };
    expect(await codes({})).toContain('FAILOVER_UNNOTICED');
    expect(await codes({ failoverDetector: true })).not.toContain('FAILOVER_UNNOTICED');

    await sentinels.sentinels[1]!.kill();
    const program = `
      const { redisStore } = await import(${JSON.stringify(new URL('../../src/stores/redis/index.js', import.meta.url).href)});
      const { createSystem } = await import(${JSON.stringify(new URL('../../src/system.js', import.meta.url).href)});
      const context = { system: createSystem(), namespace: 'lastout', maxStoredJobs: 1 };
      const store = await redisStore({ options: ${JSON.stringify(sentinels.options)} }).open(context);
      store.subscribe(() => undefined);
      await store.check();
      process.stdout.write('opened');
    `;
    const { stdout, stderr } = await promisify(execFile)(
      process.execPath,
      ['--import', 'tsx', '--input-type=module', '--eval', program],
      { cwd: fileURLToPath(new URL('../..', import.meta.url)), timeout: 30_000 },
    );
    expect({ stdout, stderr }).toEqual({ stdout: 'opened', stderr: '' });
  });
});
