/** One artifact folder, one store: two of them would delete the files of each other. */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { madeFolder } from '../src/artifacts/folder.js';
import { type FolderOwner, takeFolder } from '../src/artifacts/owner.js';
import { open } from '../src/index.js';
import { createSystem } from '../src/system.js';
import { emptyStore, engines } from './engines.js';
import { completes, runJob, textOf } from './lifecycle-support.js';
import { closedAfterwards, eachStore, expectCode, temporaryFolder } from './support.js';

const markerIn = (dir: string, namespace = 'lastout'): string => join(dir, `ns-${namespace}`, 'store.json');
const ownerIn = (dir: string, namespace?: string): FolderOwner =>
  JSON.parse(readFileSync(markerIn(dir, namespace), 'utf8')) as FolderOwner;

eachStore((on) => {
  it('the first store that opens a folder leaves its name there, readable by its user alone', async () => {
    const dir = temporaryFolder();
    await on.open({ artifacts: { dir } });
    expect(ownerIn(dir)).toEqual({
      engine: on.engine,
      isVolatile: on.engine === 'memory',
      identity: expect.stringMatching(/^[0-9a-z]{20}$/),
    });
    expect(statSync(markerIn(dir)).mode & 0o777).toBe(0o600);
    expect(readdirSync(join(dir, 'ns-lastout')).sort()).toEqual(['blobs', 'store.json']);
  });

  it('another store is refused, both are named, and it is closed again', async () => {
    const dir = temporaryFolder();
    const first = await on.open({ artifacts: { dir } });
    const owner = ownerIn(dir);
    for (const engine of engines) {
      if (on.engine === 'memory' && engine === 'memory') continue;
      const { url } = await emptyStore[engine]();
      const refusal = await expectCode('ARTIFACTS_IN_USE', () => open(url, { artifacts: { dir } }));
      expect(refusal.details).toMatchObject({ owner, store: { engine } });
      expect(refusal.message).toContain(`${owner.engine} store ${owner.identity}`);
      expect(refusal.message).toContain(`${engine} store ${(refusal.details!.store as { identity: string }).identity}`);
      expect(ownerIn(dir)).toEqual(owner);
      await closedAfterwards(await open(url, { artifacts: { dir: temporaryFolder() } })).enqueue('mail', 1);
    }
    await completes(first, async ({ artifact }) => void (await artifact.put('a', 'still mine')));
  });

  it('queues of one store share the folder, whoever comes first; its namespaces have one each', async () => {
    const dir = temporaryFolder();
    const { connect } = await emptyStore[on.engine]();
    const opened = await Promise.all(Array.from({ length: 4 }, () => open(connect(), { artifacts: { dir } })));
    for (const queue of opened) closedAfterwards(queue);
    const other = closedAfterwards(await open(connect(), { artifacts: { dir }, namespace: 'other' }));
    const id = await runJob(opened[0]!, async ({ artifact }) => void (await artifact.put('a', 'shared')));
    const [artifact] = await opened[3]!.artifacts.list(id);
    expect(await textOf(await opened[3]!.artifacts.read(artifact!.id))).toBe('shared');
    await completes(other, async ({ artifact: own }) => void (await own.put('b', 'of the other')));
    expect(ownerIn(dir, 'other').engine).toBe(on.engine);
  });

  it('a folder without a marker, as 0.1.0 has left it, belongs to the first that opens it', async () => {
    const dir = temporaryFolder();
    mkdirSync(join(dir, 'ns-lastout', 'blobs', 'k', 'j'), { recursive: true });
    writeFileSync(join(dir, 'ns-lastout', 'blobs', 'k', 'j', '0123456789abcdefghjk'), 'old');
    await on.open({ artifacts: { dir } });
    expect(ownerIn(dir).engine).toBe(on.engine);
  });

  it('the owner opens it again; a new identity is another store, until the marker is gone', async () => {
    if (on.engine === 'memory') return;
    const dir = temporaryFolder();
    const url = await on.url();
    for (let n = 0; n < 2; n++) await (await open(url, { artifacts: { dir } })).close();
    await expectCode('ARTIFACTS_IN_USE', () => open(url, { artifacts: { dir }, identity: 'new' }));
    await expectCode('ARTIFACTS_IN_USE', () => open(url, { artifacts: { dir } }));
    rmSync(markerIn(dir));
    closedAfterwards(await open(url, { artifacts: { dir } }));
  });
});

it('a store in memory takes a folder of memory over, and only such a one', async () => {
  const dir = temporaryFolder();
  const before = await open('memory:', { artifacts: { dir } });
  const first = ownerIn(dir);
  await before.close();
  closedAfterwards(await open('memory:', { artifacts: { dir } }));
  const second = ownerIn(dir);
  expect(second).toMatchObject({ engine: 'memory' });
  expect(second.identity).not.toBe(first.identity);
  await expectCode('ARTIFACTS_IN_USE', async () => open(`sqlite:${temporaryFolder()}/a.db`, { artifacts: { dir } }));
  expect(readdirSync(join(dir, 'ns-lastout')).sort()).toEqual(['blobs', 'store.json']);
});

it('of many that come together one has the folder', async () => {
  const folder = await madeFolder(temporaryFolder(), 'lastout');
  const owners = Array.from({ length: 20 }, (_, n) => ({
    engine: 'sqlite',
    isVolatile: false,
    identity: `store-${n}`,
  }));
  const taken = await Promise.allSettled(owners.map((owner) => takeFolder(folder, owner, createSystem())));
  expect(taken.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
  expect(readdirSync(folder)).toEqual(['store.json']);
});

it.each([
  ['a link', (marker: string) => symlinkSync('/dev/null', marker)],
  ['a FIFO', (marker: string) => execFileSync('mkfifo', [marker])],
  ['empty', (marker: string) => writeFileSync(marker, '')],
  ['another text', (marker: string) => writeFileSync(marker, '{"engine":5}')],
])('a marker that is %s is refused', async (_what, make) => {
  const dir = temporaryFolder();
  mkdirSync(join(dir, 'ns-lastout'));
  make(markerIn(dir));
  const refusal = await expectCode('ARTIFACTS_IN_USE', () => open('memory:', { artifacts: { dir } }));
  expect(refusal.message).toContain(markerIn(dir));
  expect(existsSync(markerIn(dir))).toBe(true);
});
