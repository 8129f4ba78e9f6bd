// PostgreSQL that can be read and not written: what is expired goes where the server is the primary for certain, and else stays.
import { describe, expect, test } from 'vitest';
import { open } from '../../src/index.js';
import { copyOfPostgres, isServed, privatePostgres } from '../services.js';
import { plainClient as pgClient } from '../stores/postgres-support.js';
import type { Afterwards } from '../engines.js';
import { closedAfterwards } from '../support.js';
import { eventually, expectDestroyed, expectEnded, expectKept, leased, recorded } from './support.js';

describe.skipIf(!isServed('postgres'))('on PostgreSQL', { timeout: 150_000, concurrent: true }, () => {
  async function set(url: string, name: string, value: string, afterwards: Afterwards): Promise<void> {
    const client = await pgClient(url, {}, afterwards);
    await client.query('set default_transaction_read_only = off');
    await client.query(`alter system set ${name} = '${value}'`);
    await client.query('select pg_reload_conf()');
  }

  test('one that begins transactions read-only', async ({ onTestFinished }) => {
    const { url } = await privatePostgres({}, onTestFinished);
    const it = await leased(url, onTestFinished);
    await set(url, 'default_transaction_read_only', 'on', onTestFinished);
    await expectDestroyed(it);
    await set(url, 'default_transaction_read_only', 'off', onTestFinished);
    await expectEnded(it);
  });

  test('one that lacks the standbys that it waits for is not believed', async ({ onTestFinished }) => {
    const { url } = await privatePostgres({}, onTestFinished);
    const it = await leased(url, onTestFinished);
    await set(url, 'default_transaction_read_only', 'on', onTestFinished);
    await set(url, 'synchronous_standby_names', 'FIRST 1 (elsewhere)', onTestFinished);
    await expectKept(it);
    await set(url, 'synchronous_standby_names', '', onTestFinished);
    await set(url, 'default_transaction_read_only', 'off', onTestFinished);
    await expectEnded(it);
  });

  test('nor is a standby', async ({ onTestFinished }) => {
    const primary = await privatePostgres({}, onTestFinished);
    const standby = await copyOfPostgres(primary, { follows: true }, onTestFinished);
    await standby.start();
    const it = await leased(primary.url, onTestFinished);
    await eventually('it has both', async () => {
      // What is not there yet, it has not heard of.
      const asked = (await pgClient(standby.url, {}, onTestFinished)).query(
        'select id from lastout.jobs where type = $1',
        ['lastout.lease.room'],
      );
      return (await asked.catch(() => ({ rows: [] }))).rows.length === 2;
    });
    await primary.stop('immediate');
    const { logger, lines } = recorded();
    const reader = closedAfterwards(await open(standby.url, { resources: [it.room.resource], logger }), onTestFinished);
    const there = { ...it, queue: reader, lines };
    await expectKept(there);
    await (await pgClient(standby.url, {}, onTestFinished)).query('select pg_promote()');
    expect(await reader.wait(it.brief.id, { timeout: '40s' })).toMatchObject({ state: 'completed' });
    expect(it.room.names()).toEqual([it.held.name]);
  });
});
