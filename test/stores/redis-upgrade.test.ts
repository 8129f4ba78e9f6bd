// The version of a layout in Redis: written when a namespace is opened, brought up to date, refused when it is newer.
import { expect, it } from 'vitest';
import { layoutVersion } from '../../src/stores/redis/lua/upgrade.js';
import { describeOn } from '../engines.js';
import { emptyRedis } from '../services.js';
import { expectCode } from '../support.js';
import { restore } from '../upgrade/restore.js';
import { readStored } from '../upgrade/stored.js';
import { openStore, plainClient } from './redis-support.js';

const counters = '{lastout}:n';

describeOn('redis', 'the version of a layout in Redis', () => {
  it('is written into a new namespace', async () => {
    const url = await emptyRedis();
    await openStore({ url });
    expect(await plainClient(url).hget(counters, 'layout')).toBe(String(layoutVersion));
  });

  it('is brought up to date, also by several at once', async () => {
    const url = await restore.redis(readStored('0.1.0', 'redis').data);
    const client = plainClient(url);
    expect(await client.hget(counters, 'layout')).toBeNull();
    await Promise.all([openStore({ url }), openStore({ url }), openStore({ url })]);
    expect(await client.hget(counters, 'layout')).toBe(String(layoutVersion));
  });

  it('is refused where it is newer, and nothing is changed', async () => {
    const url = await emptyRedis();
    const client = plainClient(url);
    await client.hset(counters, 'layout', layoutVersion + 1);
    const refusal = await expectCode('STORE_NEWER', () => openStore({ url }));
    expect(refusal.message).toMatch(/version 3 .* "lastout".* knows version 2: upgrade lastout/);
    expect(refusal.details).toEqual({ found: layoutVersion + 1, known: layoutVersion });
    expect(await client.hgetall(counters)).toEqual({ layout: String(layoutVersion + 1) });
  });
});
