import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { watch } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { temporaryFolder } from './support.js';

const root = new URL('..', import.meta.url);
const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
const freeze = new URL('./freeze.ts', import.meta.url).href;
const byNode = [process.execPath, '--import', tsx, '--import', freeze, 'src/main.ts'];
// Without its prestart: a build would take away what other tests load meanwhile.
const byNpm = ['npm', 'start', '--ignore-scripts'];

interface Run {
  readonly tmp: string;
  readonly child: ChildProcess;
  readonly exited: Promise<[code: number | null, signal: NodeJS.Signals | null]>;
  /** Resolves when this has been said; rejects where the tour ends without it. */
  said(text: string): Promise<void>;
  /** It stands still no more. */
  goOn(): Promise<void>;
}

/** In a folder for temporary files of its own, by which its processes are known, too. */
async function run([program, ...args]: readonly string[], freezeAt = ''): Promise<Run> {
  const [tmp, beside] = [await temporaryFolder(), await temporaryFolder()];
  const FREEZE_UNTIL = join(beside, 'go on');
  if (freezeAt === '') await writeFile(FREEZE_UNTIL, '');
  expect(await left(tmp)).toEqual({ files: [], processes: [] });
  const child = spawn(program!, args, {
    cwd: root,
    env: { ...process.env, TMPDIR: tmp, FREEZE_AT: freezeAt, FREEZE_UNTIL, npm_config_update_notifier: 'false' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited: Run['exited'] = once(child, 'exit').then(([code, by]) => [code, by]);
  onTestFinished(() => void child.kill('SIGKILL'));
  let output = '';
  const listeners = new Set<() => void>();
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
    for (const listener of listeners) listener();
  });
  return {
    tmp,
    child,
    exited,
    goOn: () => writeFile(FREEZE_UNTIL, ''),
    said: (text) =>
      new Promise((resolve, reject) => {
        const look = (): void => (output.includes(text) ? resolve() : undefined);
        listeners.add(look);
        look();
        void exited.then(() => reject(new Error(`It ended without having said "${text}": ${output}`)));
      }),
  };
}

/** What is in the folder, without what the runner of TypeScript keeps there; and the processes that have it as theirs. */
async function left(tmp: string): Promise<{ files: readonly string[]; processes: readonly string[] }> {
  const files = (await readdir(tmp)).filter((name) => !name.startsWith('tsx-') && name !== 'node-compile-cache');
  const pids = (await readdir('/proc').catch(() => [])).filter((name) => /^\d+$/.test(name));
  const processes: string[] = [];
  for (const pid of pids) {
    const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
    if (environment.split('\0').includes(`TMPDIR=${tmp}`))
      processes.push(await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => pid));
  }
  return { files, processes };
}

async function expectNothingLeft(tmp: string): Promise<void> {
  expect((await left(tmp)).files).toEqual([]);
  // A helper of the runner of TypeScript sees a moment later that it is alone.
  await expect.poll(() => left(tmp), { timeout: 10_000, interval: 20 }).toEqual({ files: [], processes: [] });
}

/** Its folder is there, and nothing else yet. */
async function folderMade({ tmp, exited }: Run): Promise<void> {
  const watching = new AbortController();
  const seen = new Promise<void>((resolve) => {
    watch(tmp, { signal: watching.signal }, (_, name) => name?.startsWith('lastout-') && resolve());
  });
  await Promise.race([seen, exited.then(() => Promise.reject(new Error('It ended without a folder')))]);
  watching.abort();
}

/** At each of them the tour stands still until the signal has been sent: what follows takes milliseconds. */
const moments: { readonly [when: string]: string } = {
  'the first trip is requested': 'trip-1 is requested',
  'drivers are passed over': 'The time to answer is over',
  'a trip is cancelled': 'trip-2 is CANCELLED',
  'a sweep comes': 'before the sweep',
  'the database is away': 'trip-4 is requested',
  'the last trip is requested': 'trip-5 is requested',
  'all has been shown': 'Nothing left behind.',
};

describe.each(['SIGTERM', 'SIGINT'] as const)('%s', (signal) => {
  test.each(Object.keys(moments))('when %s: it cleans up and ends with 128 + the signal', async (when) => {
    const tour = await run(byNode, moments[when]);
    await tour.said(moments[when]!);
    expect((await left(tour.tmp)).files).toHaveLength(1);
    tour.child.kill(signal);
    await tour.goOn();
    expect(await tour.exited).toEqual([128 + constants.signals[signal], null]);
    await expectNothingLeft(tour.tmp);
  });

  test('when its folder is just made: the same', async () => {
    const tour = await run(byNode);
    await folderMade(tour);
    tour.child.kill(signal);
    expect(await tour.exited).toEqual([128 + constants.signals[signal], null]);
    await expectNothingLeft(tour.tmp);
  });

  test('when it has hardly begun: nothing has been made, and nothing is left', async () => {
    const tour = await run(byNode);
    await once(tour.child, 'spawn');
    tour.child.kill(signal);
    expect(await tour.exited).toEqual([null, signal]);
    await expectNothingLeft(tour.tmp);
  });

  test('told again and again, as by a terminal and by npm, it cleans up all the same', async () => {
    const tour = await run(byNode, 'trip-1 is requested');
    await tour.said('trip-1 is requested');
    tour.child.kill(signal);
    await tour.goOn();
    const hasFolder = async () => (await readdir(tour.tmp)).some((name) => name.startsWith('lastout-'));
    for (let isAlive = true; isAlive && (await hasFolder()); ) isAlive = tour.child.kill(signal);
    // The last one may meet a process that is past its own code: to a shell it is the same.
    const [code, by] = await tour.exited;
    expect(code ?? 128 + constants.signals[by!]).toBe(128 + constants.signals[signal]);
    await expectNothingLeft(tour.tmp);
  });

  test('npm start hands it on', async () => {
    const tour = await run(byNpm);
    await tour.said('trip-1 is requested');
    expect(await left(tour.tmp)).toMatchObject({ files: { length: 1 } });
    tour.child.kill(signal);
    expect(await tour.exited).toEqual([128 + constants.signals[signal], null]);
    // npm ends when the tour has: nothing has to be waited for.
    expect(await left(tour.tmp)).toEqual({ files: [], processes: [] });
  });
});
