// What PostgreSQL refuses, in our words: a code, what to do, its own code in the details, and nothing stored.
import { describe, expect, onTestFinished, test } from 'vitest';
import { open } from '../../src/index.js';
import { isLost, lost, stateOf, textOf, unreachable } from '../../src/stores/postgres/errors.js';
import { emptyPostgres } from '../services.js';
import { closedAfterwards, expectCode } from '../support.js';
import { plainClient } from './postgres-support.js';

describe('a statement that the server takes back', () => {
  test.each([
    ['53100', 'STORE_FULL', 'the disk is full'],
    ['25006', 'STORE_READONLY', 'standby'],
    ['42501', 'STORE_DENIED', 'grant'],
    ['57014', 'STORE_UNAVAILABLE', 'too busy'],
    ['55P03', 'STORE_UNAVAILABLE', 'too busy'],
    ['40001', 'STORE_UNAVAILABLE', 'again and again'],
    ['40P01', 'STORE_UNAVAILABLE', 'again and again'],
    ['42P01', 'STORE_UNAVAILABLE', 'dropped'],
    ['XX000', 'STORE_UNAVAILABLE', 'took the step back'],
  ] as const)('%s is %s', async (sqlState, code, words) => {
    const url = await emptyPostgres();
    const client = await plainClient(url);
    const queue = closedAfterwards(await open(url));
    await client.query(`create sequence tries;
      create function refuse() returns trigger language plpgsql as
        $$ begin perform nextval('tries'); raise exception 'so it is' using errcode = '${sqlState}'; end $$;
      create trigger refuse before insert on lastout.jobs for each row execute function refuse()`);
    onTestFinished(async () => void (await client.query('drop trigger refuse on lastout.jobs')));
    const refusal = await expectCode(code, () => queue.enqueue('mail', 1));
    expect(refusal.message).toContain(words);
    expect(refusal.message).toContain('so it is');
    expect(refusal.details).toMatchObject({ sqlState });
    expect(refusal.cause).toMatchObject({ code: sqlState });
    expect((await queue.stats()).total.pending).toBe(0);
    const tries = Number((await client.query('select last_value from tries')).rows[0].last_value);
    expect(tries).toBe(sqlState.startsWith('40') ? 4 : 1);
  });

  test('a conflict that passes is never told', async () => {
    const url = await emptyPostgres();
    const client = await plainClient(url);
    const queue = closedAfterwards(await open(url));
    await client.query(`create sequence tries;
      create function refuse() returns trigger language plpgsql as
        $$ begin if nextval('tries') < 4 then raise exception 'once' using errcode = '40001'; end if; return new; end $$;
      create trigger refuse before insert on lastout.jobs for each row execute function refuse()`);
    onTestFinished(async () => void (await client.query('drop trigger refuse on lastout.jobs')));
    expect(await queue.enqueue('mail', 1)).toMatchObject({ outcome: 'created' });
    expect((await queue.stats()).total.pending).toBe(1);
  });

  test('transactions that are read-only for this role: writes are refused, reads go on', async () => {
    const url = new URL(await emptyPostgres());
    const first = await open(url.href);
    const { id } = await first.enqueue('mail', 1);
    await first.close();
    url.searchParams.set('options', '-c default_transaction_read_only=on');
    const queue = closedAfterwards(await open(url.href));
    await expectCode('STORE_READONLY', () => queue.enqueue('mail', 2));
    expect(await queue.get(id)).toMatchObject({ input: 1 });
    expect(await queue.health()).toMatchObject({
      ok: false,
      warnings: expect.arrayContaining([expect.objectContaining({ code: 'READ_ONLY' })]),
    });
  });

  test('a schema that was dropped under a running queue', async () => {
    const url = await emptyPostgres();
    const queue = closedAfterwards(await open(url, { namespace: 'gone' }));
    await queue.stopPeriodicCleanup(); // its first one would meet the drop
    await (await plainClient(url)).query('drop schema gone cascade');
    const { message } = await expectCode('STORE_UNAVAILABLE', () => queue.enqueue('mail', 1));
    expect(message).toContain('was its schema dropped?');
  });
});

describe('what an error says', () => {
  const server = (code: string): Error => Object.assign(new Error('what it said'), { code });

  test.each([
    ['as it is', server('40001'), '40001'],
    ['wrapped', new Error('Failed query: … params: secret', { cause: server('40001') }), '40001'],
    ['wrapped twice', new Error('a', { cause: new Error('b', { cause: server('23505') }) }), '23505'],
    [
      'in the words of Prisma',
      Object.assign(new Error('raw query failed'), { code: 'P2010', meta: { code: '40001' } }),
      '40001',
    ],
    ['a broken pipe is none', server('EPIPE'), undefined],
    ['a reset is none', server('ECONNRESET'), undefined],
    ['a code of Prisma alone is none', server('P2028'), undefined],
    ['no error', undefined, undefined],
    ['a text', '40001', undefined],
  ])('%s', (_, error, expected) => {
    expect(stateOf(error)).toBe(expected);
  });

  test('a wrapper that repeats the values is not quoted', () => {
    expect(textOf(new Error('Failed query: … params: secret', { cause: server('40001') }))).toBe('what it said');
    expect(textOf(new AggregateError([new Error('one'), new Error('two')]))).toBe('one, two');
    expect(textOf({})).toBe('an error without a message');
  });

  test('an answer that will not come leaves a write unknown; a pooler says so with class 08', () => {
    expect([server('ECONNRESET'), server('08P01'), server('40003')].map(isLost)).toEqual([true, true, true]);
    expect([server('57P01'), server('53100')].map(isLost)).toEqual([false, false]);
    expect(lost(server('08P01'), 'The server', 'writing').code).toBe('RESULT_UNKNOWN');
    expect(lost(server('08P01'), 'The server', 'reading').code).toBe('STORE_UNAVAILABLE');
  });

  test.each([
    ['28P01', 'STORE_DENIED'],
    ['28000', 'STORE_DENIED'],
    ['3D000', 'STORE_DENIED'],
    ['53300', 'STORE_UNAVAILABLE'],
    ['57P03', 'STORE_UNAVAILABLE'],
    ['ECONNREFUSED', 'STORE_UNAVAILABLE'],
  ])('%s while connecting is %s', (code, expected) => {
    expect(unreachable(server(code), 'The server').code).toBe(expected);
  });
});
