import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { expectCleanEnd, runTour } from '../../../test/tours.js';
import { readSettings } from '../src/settings.js';
import { temporaryFolder } from './support.js';

const main = new URL('../src/main.ts', import.meta.url);

test('001-42 001-46 npm start tells the story of 51 changes and two builds, and leaves nothing behind', async () => {
  const { code, stdout, stderr, files } = await runTour(main);

  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toContain('post 1       enqueued');
  expect(stdout).toContain('posts 2–49   48 skipped');
  expect(stdout).toContain('post 50      enqueued');
  expect(stdout).toContain('post 51      skipped');
  // The story follows the queue's events; the plugin's own log lines ("·") fall between them as they come.
  const story = stdout.replace(/^ {2}· .*\n/gm, '');
  expect(story).toMatch(/✔ Build #1 {3}49 posts, .*\n {2}✔ Build #2 {3}51 posts, /);
  expect(stdout).toContain('51 changes → 2 builds');
  expect(stdout).toContain('its page is gone');
  expect(stdout).toContain('no build: profiles are excluded');
  expect(stdout).toContain('Subscriptions 0, builds abandoned 0, left behind 0.');
  expect(files).toEqual([]);
});

for (const [signal, moments] of [
  [
    'SIGTERM',
    ['A site builder', 'One build is pending', 'post 1 ', 'picks up Build #1', '51 changes', 'Ctrl-C ends it'],
  ],
  ['SIGINT', ['+ guide/routes', 'posts 2–49', 'post 50', 'Build #1   49', 'A deletion', 'Ctrl-C ends it']],
] as const) {
  test(`${signal} ends it at any moment, and nothing is left`, async () => {
    for (const on of moments)
      await expectCleanEnd(main, { args: ['--serve'], env: { PORT: '0' }, kill: { signal, on, group: true } });
  });
}

test('it ends when nobody reads what it says, and when its terminal goes', async () => {
  await expectCleanEnd(main, { kill: { signal: 'SIGHUP', on: 'post 1 ' } });
  const { code, stderr, files, processes } = await runTour(main, { deaf: 'Importing' });
  expect({ code, stderr, files, processes }).toEqual({ code: 141, stderr: '', files: [], processes: [] });
});

test('each variable of the environment is checked, named when it is refused, and nothing is left', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void taken.close());
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const folder = await temporaryFolder();
  const refusals: readonly (readonly [variable: string, value: string, message: RegExp])[] = [
    ['PORT', 'x', /^PORT must be a whole number from 0 to 65535\n$/],
    ['PORT', String(port), /^PORT: .*EADDRINUSE.*\n$/],
    ['STORE', 'mysql://user:secret@nowhere', /^STORE must be memory: or sqlite:FILE\n$/],
    ['STORE', `sqlite:${join(folder, 'none', 'jobs.db')}`, /^STORE: The database .* does not exist\.\n$/],
    ['STORE', `sqlite:${folder}`, /^STORE: .+\n$/],
    ['TMPDIR', join(folder, 'none'), /^TMPDIR: ENOENT.*\n$/],
  ];
  for (const [variable, value, message] of refusals) {
    const ended = await runTour(main, { args: ['--serve'], env: { [variable]: value } });
    expect([variable, ended.code, ended.files]).toEqual([variable, 1, []]);
    expect(ended.stderr).toMatch(message);
  }
  expect(await readdir(folder)).toEqual([]);
});

test('an empty variable is an unset one, and no other number is a port', () => {
  expect(readSettings({ STORE: '', PORT: '' })).toEqual({ store: null, port: 4600 });
  expect(readSettings({ STORE: 'memory:', PORT: '0' })).toEqual({ store: 'memory:', port: 0 });
  expect(readSettings({ STORE: 'sqlite:a.db', PORT: '65535' })).toEqual({ store: 'sqlite:a.db', port: 65_535 });
  for (const PORT of ['65536', '-1', '1.5', '0x50', '1e3', ' 80', '٣', '000080', 'Infinity'])
    expect(() => readSettings({ PORT })).toThrow('PORT must be');
  for (const STORE of ['memory', 'memory:x', 'sqlite', 'sqlite:', ' memory:', 'redis://x'])
    expect(() => readSettings({ STORE })).toThrow('STORE must be');
});

test('the store of STORE outlives the tour, and a second one can be made on it', async () => {
  const STORE = `sqlite:${join(await temporaryFolder(), 'jobs.db')}`;
  for (let n = 0; n < 2; n++) {
    const { code, stdout, stderr, files } = await runTour(main, { env: { STORE } });
    expect([code, stderr, files]).toEqual([0, '', []]);
    expect(stdout).toContain('51 changes → 2 builds');
  }
});
