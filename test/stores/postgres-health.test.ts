// Health of the PostgreSQL store: not ok where nothing can be written, and what is to be feared of standbys and clocks.
import { execFileSync } from 'node:child_process';
import { chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { lesserUser } from '../../scripts/services/folders.mjs';
import { whenGone } from '../../scripts/services/guard.mjs';
import { defineJob, open, type Queue } from '../../src/index.js';
import { handClock, hour, minute } from '../lifecycle-support.js';
import { databaseUrl, onServer } from '../services/postgres.js';
import { copyOfPostgres, isServed, privatePostgres } from '../services.js';
import { closedAfterwards, expectCode } from '../support.js';
import { eventually, plainClient } from './postgres-support.js';

const codesOf = async (queue: Queue): Promise<string[]> => (await queue.health()).warnings.map(({ code }) => code);

describe.skipIf(!isServed('postgres'))('with a standby', () => {
  test('the primary warns until it waits for it, whoever asks; the standby is not ok until it is promoted', async () => {
    const primary = await privatePostgres();
    const queue = closedAfterwards(await open(primary.url));
    expect(await codesOf(queue)).toEqual([]);
    const standby = await copyOfPostgres(primary, { follows: true });
    await standby.start();
    const client = await plainClient(primary.url);
    await eventually(
      'it follows',
      async () => (await client.query('select 1 from pg_stat_replication')).rows.length > 0,
    );
    await client.query(`create role plain login password 'secret'; grant usage on schema lastout to plain;
      grant select, insert, update, delete on all tables in schema lastout to plain;
      grant usage on all sequences in schema lastout to plain`);
    const url = new URL(primary.url);
    url.username = 'plain';
    url.password = 'secret';
    const plain = closedAfterwards(await open(url.href));
    for (const one of [queue, plain]) {
      expect(await one.health()).toMatchObject({ ok: true, warnings: [{ code: 'ASYNCHRONOUS_STANDBY' }] });
    }
    await client.query(`alter system set synchronous_standby_names = '*'`);
    await client.query('select pg_reload_conf()');
    await eventually('nothing is to be feared', async () => (await codesOf(queue)).length === 0);
    expect(await codesOf(plain)).toEqual([]);

    const reader = closedAfterwards(await open(standby.url));
    expect(await reader.health()).toMatchObject({ ok: false, warnings: [{ code: 'STANDBY' }] });
    await expectCode('STORE_READONLY', () => reader.enqueue('mail', 1));
    await primary.stop('immediate');
    await (await plainClient(standby.url)).query('select pg_promote()');
    await reader.enqueue('mail', 1);
    expect(await reader.health()).toMatchObject({ ok: true });
  });
});

/** A file system of a few megabytes can be had by root alone. */
const mayMount = process.platform === 'linux' && process.getuid?.() === 0;

describe.skipIf(!isServed('postgres'))('of the disk and the clock', () => {
  test.skipIf(!mayMount)('a full disk is not ok, and STORE_FULL; it is ok again when there is room', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'lastout-disk-'));
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=20m', 'none', folder]);
    const unmount = ['umount', '-l', folder] as const;
    const forget = whenGone({ run: [...unmount] });
    onTestFinished(() => {
      execFileSync(unmount[0], unmount.slice(1));
      rmSync(folder, { recursive: true });
      forget();
    });
    const user = lesserUser()!;
    chownSync(folder, user.uid, user.gid);
    const server = await privatePostgres({ durable: false });
    await onServer(server.url, `create tablespace small location '${folder}'`);
    await onServer(server.url, 'create database filled tablespace small');
    const queue = closedAfterwards(await open(databaseUrl(server.url, 'filled')));
    expect(await queue.health()).toMatchObject({ ok: true, warnings: [{ code: 'FSYNC_OFF' }] });

    const filler = join(folder, 'filler');
    fill(filler);
    expect(await queue.health()).toMatchObject({ ok: false, warnings: [{ code: 'DISK_FULL' }, { code: 'FSYNC_OFF' }] });
    const input = Array.from({ length: 10_000 }, () => Math.random());
    const many = async () => {
      for (let n = 0; n < 50; n++) await queue.enqueue('mail', input);
    };
    await expectCode('STORE_FULL', many);
    rmSync(filler);
    expect(await queue.health()).toMatchObject({ ok: true });
    await queue.enqueue('mail', input);
  });

  test('a clock that was set back is warned of until it has caught up', async () => {
    const server = await privatePostgres();
    const clock = handClock();
    const queue = closedAfterwards(await open(server.url, { clock }));
    const job = defineJob<number, number>('job', { run: ({ input }) => input });
    await queue.enqueue(job, 1);
    await queue.runUntilIdle([job]);
    expect(await codesOf(queue)).toEqual([]);
    clock.at -= hour;
    const { ok, warnings } = await queue.health();
    expect(ok).toBe(true);
    expect(warnings).toMatchObject([{ code: 'CLOCK_BACK', message: expect.stringContaining('3600 s behind') }]);
    clock.at += hour + minute;
    expect(await codesOf(queue)).toEqual([]);
  });
});

/** Until nothing more goes in. */
function fill(file: string): void {
  for (let kilobytes = 32_768; kilobytes >= 4; kilobytes /= 2) {
    try {
      for (;;) writeFileSync(file, Buffer.alloc(kilobytes * 1_024), { flag: 'a' });
    } catch (error) {
      expect((error as NodeJS.ErrnoException).code).toBe('ENOSPC');
    }
  }
  expect(statSync(file).size).toBeGreaterThan(0);
}
