import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { readConfig } from '../src/config.js';
import { temporaryFolder } from './support.js';

const numbers = [
  ['JOB_POLL_INTERVAL_MS', 'jobPollIntervalMs', 100],
  ['JOB_CLEANUP_INTERVAL_MS', 'jobCleanupIntervalMs', 60_000],
  ['JOB_RETENTION_MS', 'jobRetentionMs', 3_600_000],
  ['QUEUE_MAX_CONCURRENT', 'queueMaxConcurrent', 10],
  ['QUEUE_MAX_WAITING', 'queueMaxWaiting', 50],
  ['CACHE_TTL', 'cacheTtlMs', 300_000],
  ['RENDER_TIMEOUT_MS', 'renderTimeoutMs', 30_000],
  ['RENDER_MEMORY_MB', 'renderMemoryMb', 512],
  ['PORT', 'port', 3000],
] as const;

test('003-26 003-27 the defaults: polling every 100 ms, cleanup every 60000 ms, and the rest of the table', () => {
  const config = readConfig({});
  for (const [variable, name, value] of numbers) expect([variable, config[name]]).toEqual([variable, value]);
  expect(config).toMatchObject({
    jobDbPath: './data/jobs.db',
    host: '127.0.0.1',
    baseUrl: '',
    logLevel: 'info',
    auth: null,
  });
});

test('003-28 each is taken from the environment; an empty variable is an unset one', () => {
  for (const [variable, name, value] of numbers) {
    expect(readConfig({ [variable]: '7' })[name]).toBe(7);
    expect(readConfig({ [variable]: '' })[name]).toBe(value);
  }
  expect(readConfig({ JOB_DB_PATH: '/x/y.db' }).jobDbPath).toBe('/x/y.db');
  expect(readConfig({ BASE_URL: 'https://d.example/' }).baseUrl).toBe('https://d.example');
  expect(readConfig({ LOG_LEVEL: 'warn' }).logLevel).toBe('warn');
  expect(readConfig({ LOG_LEVEL: 'loud' }).logLevel).toBe('info');
  expect(readConfig({ AUTH_ENABLED: 'true', AUTH_USER: 'a', AUTH_PASS: 'b' }).auth).toEqual({ user: 'a', pass: 'b' });
});

test('003-28 a value that is no number is refused by the name of its variable', () => {
  for (const [variable] of numbers) {
    for (const value of ['abc', '1e', 'NaN', 'Infinity', '1.5', '10 s'])
      expect(() => readConfig({ [variable]: value })).toThrow(new Error(`${variable} must be a valid number`));
    expect(() => readConfig({ [variable]: '-1' })).toThrow(`${variable} must be a valid number, at least `);
  }
  expect(() => readConfig({ AUTH_ENABLED: 'yes' })).toThrow('AUTH_ENABLED must be true or false');
  expect(() => readConfig({ AUTH_ENABLED: 'true', AUTH_PASS: 'b' })).toThrow('AUTH_USER is required');
  expect(() => readConfig({ AUTH_ENABLED: 'true', AUTH_USER: 'a' })).toThrow('AUTH_PASS is required');
});

test('003-28 what no timer and no port can be is refused, with the most that is taken', () => {
  for (const [variable, max] of Object.entries({ RENDER_TIMEOUT_MS: 2_147_483_647, PORT: 65_535 })) {
    const refusal = new Error(`${variable} must be a valid number, at most ${max}`);
    expect(() => readConfig({ [variable]: String(max + 1) })).toThrow(refusal);
    expect(() => readConfig({ [variable]: String(max) })).not.toThrow();
  }
});

test('003-28 a wrong number stops the start', async () => {
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  const main = new URL('../src/main.ts', import.meta.url).pathname;
  const env = { PATH: process.env['PATH'], TMPDIR: await temporaryFolder(), JOB_POLL_INTERVAL_MS: 'often' };
  const run = promisify(execFile)(process.execPath, ['--import', tsx, main, '--serve'], { env, timeout: 30_000 });
  await expect(run).rejects.toMatchObject({ code: 1, stderr: 'JOB_POLL_INTERVAL_MS must be a valid number\n' });
});
