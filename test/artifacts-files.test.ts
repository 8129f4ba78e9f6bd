// Artifacts and temporary folders on a real disk: whole or not there, private, and nothing is left.
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, it } from 'vitest';
import { fileBlobs } from '../src/artifacts/files.js';
import { folderOf } from '../src/artifacts/folder.js';
import { tempFolders } from '../src/artifacts/temp.js';
import { defineJob, open, type Queue } from '../src/index.js';
import { openPlace } from '../src/open-lifecycle.js';
import { createSystem } from '../src/system.js';
import { byHand, completes, day, hour, idsIn, readText, runJob, t0, textOf, things } from './lifecycle-support.js';
import { compilePrograms } from './programs.js';
import { closedAfterwards, eachStore, expectCode, gate, temporaryFolder } from './support.js';

const anySize = { maxBytes: Number.POSITIVE_INFINITY, signal: new AbortController().signal };
const id = '0123456789abcdefghjk';

async function* chunks(...parts: string[]): AsyncIterable<Uint8Array> {
  for (const part of parts) yield Buffer.from(part);
}

/** Without the marker of the folder. */
function filesIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory() && entry.name !== 'store.json')
    .map((entry) => entry.name)
    .sort();
}

describe('blobs in files', () => {
  const blobsIn = (dir: string) => fileBlobs(dir, createSystem());

  it('a blob is one file, named by its id, two folders deep, readable by its owner alone', async () => {
    const dir = temporaryFolder();
    const blobs = await blobsIn(dir);
    await blobs.put(id, chunks('he', 'llo'), anySize);
    const path = join(dir, 'blobs', 'k', 'j', id);
    expect(readFileSync(path, 'utf8')).toBe('hello');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(join(dir, 'blobs', 'k')).mode & 0o777).toBe(0o700);
    expect(await textOf(blobs.read(id))).toBe('hello');
    expect(await blobs.used()).toBe(5);
    await blobs.delete(id);
    await blobs.delete(id);
    expect(filesIn(dir)).toEqual([]);
    expect(await blobs.used()).toBe(0);
  });

  it('while it is written it stands beside its place, and appears there whole', async () => {
    const dir = temporaryFolder();
    const blobs = await blobsIn(dir);
    const halfway = gate();
    const goOn = gate();
    async function* slow(): AsyncIterable<Uint8Array> {
      yield Buffer.from('half');
      halfway.open();
      await goOn.opened;
      yield Buffer.from(' whole');
    }
    const putting = blobs.put(id, slow(), anySize);
    await halfway.opened;
    await expect.poll(() => filesIn(dir)).toEqual([`${id}.part`]);
    await expect(textOf(blobs.read(id))).rejects.toThrow('ENOENT');
    goOn.open();
    await putting;
    expect(filesIn(dir)).toEqual([id]);
    expect(await textOf(blobs.read(id))).toBe('half whole');
  });

  it.each([
    ['its source fails', failing(), anySize, 'the source broke'],
    ['there is too much of it', chunks('123', '456'), { ...anySize, maxBytes: 5 }, 'quota'],
    ['it is called off', hanging(), { ...anySize, signal: AbortSignal.abort(new Error('called off')) }, 'called off'],
  ])('nothing stays where %s', async (_what, source, options, message) => {
    const dir = temporaryFolder();
    const blobs = await blobsIn(dir);
    await expect(blobs.put(id, source, options)).rejects.toThrow(message);
    expect(filesIn(dir)).toEqual([]);
    expect(await idsIn(blobs)).toEqual([]);
  });

  async function* failing(): AsyncIterable<Uint8Array> {
    yield Buffer.from('some');
    throw new Error('the source broke');
  }
  async function* hanging(): AsyncIterable<Uint8Array> {
    yield Buffer.from('some');
    await new Promise(() => undefined);
  }

  it('a put that hangs on its source ends with its signal', async () => {
    const dir = temporaryFolder();
    const blobs = await blobsIn(dir);
    const calling = new AbortController();
    const putting = blobs.put(id, hanging(), { ...anySize, signal: calling.signal });
    await expect.poll(() => filesIn(dir)).toEqual([`${id}.part`]);
    calling.abort(new Error('called off'));
    await expect(putting).rejects.toThrow('called off');
    expect(filesIn(dir)).toEqual([]);
  });

  it('what a crash left of a put is listed, and deleted by the same id', async () => {
    const dir = temporaryFolder();
    const blobs = await blobsIn(dir);
    mkdirSync(join(dir, 'blobs', 'k', 'j'), { recursive: true });
    writeFileSync(join(dir, 'blobs', 'k', 'j', `${id}.part`), 'half');
    expect(await idsIn(blobs)).toEqual([id]);
    await blobs.delete(id);
    expect(filesIn(dir)).toEqual([]);
  });

  it('lists what is older than asked, and looks at nothing that is not its own', async () => {
    const dir = temporaryFolder();
    const blobs = await blobsIn(dir);
    await blobs.put(id, chunks('x'), anySize);
    writeFileSync(join(dir, 'blobs', 'k', 'j', 'README.md'), 'mine');
    writeFileSync(join(dir, 'blobs', 'notes'), 'mine');
    mkdirSync(join(dir, 'blobs', 'other', 'j'), { recursive: true });
    const old = new Date(Date.now() - 2 * hour);
    utimesSync(join(dir, 'blobs', 'k', 'j', id), old, old);
    const listed: unknown[] = [];
    for await (const each of blobs.list(hour)) listed.push(each);
    expect(listed).toEqual([{ id, bytes: 1 }]);
    for await (const each of blobs.list(3 * hour)) listed.push(each);
    expect(listed).toHaveLength(1);
  });

  it.each(['../../../etc/passwd', 'short', `${id}.part`, `/${id.slice(1)}`, id.toUpperCase()])(
    'refuses %j as an id',
    async (name) => {
      const blobs = await blobsIn(temporaryFolder());
      await expectCode('INVALID_ID', () => blobs.delete(name));
      await expectCode('INVALID_ID', () => blobs.put(name, chunks('x'), anySize));
      await expectCode('INVALID_ID', () => textOf(blobs.read(name)));
    },
  );

  it('follows no link: a link in the place of a blob is not read, and deleting it spares its target', async () => {
    const dir = temporaryFolder();
    const blobs = await blobsIn(dir);
    const target = join(temporaryFolder(), 'target');
    writeFileSync(target, 'precious');
    mkdirSync(join(dir, 'blobs', 'k', 'j'), { recursive: true });
    symlinkSync(target, join(dir, 'blobs', 'k', 'j', id));
    await expect(textOf(blobs.read(id))).rejects.toThrow('ELOOP');
    await blobs.delete(id);
    expect(readFileSync(target, 'utf8')).toBe('precious');
    expect(filesIn(dir)).toEqual([]);
  });

  /** What an attacker would have us write or delete: a folder elsewhere that looks like ours. */
  function elsewhere() {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'k', 'j'), { recursive: true });
    const file = join(folder, 'k', 'j', id);
    writeFileSync(file, 'precious');
    utimesSync(file, 1, 1);
    return { folder, file };
  }

  it.each([
    ['blobs', ['blobs'], []],
    ['the first level', ['blobs', 'k'], ['k']],
    ['the second level', ['blobs', 'k', 'j'], ['k', 'j']],
  ] as const)('follows no link in the place of %s, also one that came later', async (_what, place, target) => {
    for (const when of ['before', 'later'] as const) {
      const dir = temporaryFolder();
      const { folder, file } = elsewhere();
      const other = '0123456789abcdefghjk'.replace('0', 'z');
      const make = (): void => {
        rmSync(join(dir, ...place), { recursive: true, force: true });
        mkdirSync(join(dir, ...place, '..'), { recursive: true });
        symlinkSync(join(folder, ...target), join(dir, ...place));
      };
      if (when === 'before' && place.length === 1) {
        make();
        await expectCode('STORE_DENIED', () => blobsIn(dir));
        continue;
      }
      const blobs = await blobsIn(dir);
      if (when === 'later') await blobs.put(id, chunks('mine'), anySize);
      make();
      await expectCode('STORE_DENIED', () => blobs.put(other, chunks('x'), anySize));
      await expectCode('STORE_DENIED', () => textOf(blobs.read(id)));
      await expectCode('STORE_DENIED', () => blobs.delete(id));
      if (place.length === 1) await expectCode('STORE_DENIED', () => idsIn(blobs));
      else expect(await idsIn(blobs)).toEqual([]);
      expect(readFileSync(file, 'utf8')).toBe('precious');
      expect(filesIn(folder)).toEqual([id]);
    }
  });

  it('a FIFO in the place of a blob is refused and not waited for', async () => {
    const dir = temporaryFolder();
    const blobs = await blobsIn(dir);
    mkdirSync(join(dir, 'blobs', 'k', 'j'), { recursive: true });
    for (const name of [id, `${id}.part`]) execFileSync('mkfifo', [join(dir, 'blobs', 'k', 'j', name)]);
    await expect(textOf(blobs.read(id))).rejects.toThrow('it is not a file');
    await expect(blobs.put(id, chunks('x'), anySize)).rejects.toThrow('EEXIST');
    expect(await blobs.used()).toBe(0);
    await blobs.delete(id);
    expect(filesIn(dir)).toEqual([]);
  });

  it('does not write into a file that somebody laid in its way', async () => {
    const dir = temporaryFolder();
    const blobs = await blobsIn(dir);
    const target = join(temporaryFolder(), 'target');
    writeFileSync(target, 'precious');
    mkdirSync(join(dir, 'blobs', 'k', 'j'), { recursive: true });
    linkSync(target, join(dir, 'blobs', 'k', 'j', `${id}.part`));
    await expect(blobs.put(id, chunks('x'), anySize)).rejects.toThrow('EEXIST');
    expect(readFileSync(target, 'utf8')).toBe('precious');
  });

  it('the folder of a namespace is its own on every file system, and inside the one that was given', () => {
    const namespaces = [
      'a',
      'A',
      'a.',
      'a.b',
      'a..b',
      'A.b',
      'con',
      'x'.repeat(128),
      'X'.repeat(128),
      'ns-a',
      'a_',
      'a-',
    ];
    const folders = namespaces.map((namespace) => relative('base', folderOf('base', namespace)));
    expect(new Set(folders.map((folder) => folder.toLowerCase())).size).toBe(namespaces.length);
    for (const folder of folders) expect(folder).toMatch(/^nsx?-[0-9a-z](?:[0-9a-z._-]{0,126}[0-9a-z_-])?$/);
  });

  it('a folder that cannot be made is told when the queue is opened', async () => {
    const file = join(temporaryFolder(), 'file');
    writeFileSync(file, '');
    await expect(open('memory:', { artifacts: { dir: join(file, 'inside') } })).rejects.toThrow('ENOTDIR');
  });
});

describe('artifacts in files', () => {
  eachStore((on) => {
    it('sections, cached results and temporary files are real files, and one sweep leaves none of them', async () => {
      const dir = temporaryFolder();
      const { queue, clock } = await byHand(on, { artifacts: { dir } });
      const kept: string[] = [];
      const job = await completes(queue, async ({ artifact, tempDir }) => {
        await artifact.put('section-1', '# One', { kind: 'section' });
        await artifact.put('result', '{}', { kind: 'cache', ttl: '1h' });
        const folder = await tempDir();
        writeFileSync(join(folder, 'scratch'), 'x');
        kept.push(folder, ...filesIn(dir));
      });
      expect(kept[0]!.startsWith(join(dir, 'ns-lastout', 'temp'))).toBe(true);
      expect(kept).toHaveLength(4);
      expect(existsSync(kept[0]!)).toBe(false);
      expect(await readText(queue, (await queue.artifacts.get(job, 'section-1'))!.id)).toBe('# One');
      clock.at = t0 + day + 1;
      expect(await queue.sweep()).toMatchObject({ removed: 1, failures: 0 });
      expect(filesIn(dir)).toEqual([]);
      expect(await things(queue)).toEqual([]);
    });

    it('a file that nobody owns goes when it is an hour old, not before', async () => {
      const dir = temporaryFolder();
      const { queue, clock } = await byHand(on, { artifacts: { dir } });
      const job = await completes(queue, async ({ artifact }) => void (await artifact.put('a', 'kept')));
      const orphan = join(dir, 'ns-lastout', 'blobs', 'k', 'j', id);
      const folder = join(dir, 'ns-lastout', 'temp', id);
      mkdirSync(join(dir, 'ns-lastout', 'blobs', 'k', 'j'), { recursive: true });
      mkdirSync(folder, { recursive: true });
      writeFileSync(orphan, 'left behind');
      writeFileSync(join(folder, 'scratch'), 'left behind');
      for (const path of [orphan, folder]) utimesSync(path, t0 / 1_000, t0 / 1_000);
      clock.at = t0 + hour;
      expect((await queue.sweep()).removedBy).not.toHaveProperty('file');
      expect(existsSync(orphan)).toBe(true);
      clock.at += 1;
      expect(await queue.sweep()).toMatchObject({ removed: 0, removedBy: { file: 2 } });
      expect(existsSync(orphan) || existsSync(folder)).toBe(false);
      expect(await readText(queue, (await queue.artifacts.get(job, 'a'))!.id)).toBe('kept');
    });

    it('namespaces that share a folder leave the files of each other alone', async () => {
      const dir = temporaryFolder();
      const url = await on.url();
      const one = await byHand(on, { artifacts: { dir }, namespace: 'one' }, url);
      const job = await completes(one.queue, async ({ artifact }) => void (await artifact.put('a', 'precious')));
      for (const namespace of ['other', 'o.ne', 'blobs']) {
        const other = await byHand(on, { artifacts: { dir }, namespace }, url);
        other.clock.at = one.clock.at = t0 + 2 * hour;
        expect((await other.queue.sweep()).removedBy).not.toHaveProperty('file');
      }
      expect(await readText(one.queue, (await one.queue.artifacts.get(job, 'a'))!.id)).toBe('precious');
    });

    it.each([
      ['truncated', (path: string) => truncateSync(path, 2)],
      ['changed in one bit', (path: string) => writeFileSync(path, 'bxtes')],
    ])('a file that was %s is not served', async (_how, harm) => {
      const dir = temporaryFolder();
      const { queue } = await byHand(on, { artifacts: { dir } });
      const job = await completes(queue, async ({ artifact }) => void (await artifact.put('a', 'bytes')));
      const { id: artifact } = (await queue.artifacts.get(job, 'a'))!;
      harm(join(dir, 'ns-lastout', 'blobs', artifact[19]!, artifact[18]!, artifact));
      await expectCode('ARTIFACT_CORRUPT', async () => readText(queue, artifact));
    });
  });
});

describe('temporary folders', () => {
  eachStore((on) => {
    it.each(['returns', 'throws', 'is cancelled'] as const)(
      'are there while the handler runs and gone when it %s, each call its own',
      async (how) => {
        const dir = temporaryFolder();
        const { queue } = await byHand(on, { artifacts: { dir } });
        const ready = gate<string[]>();
        const goOn = gate();
        const type = defineJob<any, any>('scratch', {
          attempts: 1,
          async run({ tempDir, signal }) {
            const folders = [await tempDir(), await tempDir()];
            for (const folder of folders) {
              mkdirSync(join(folder, 'deep', 'er'), { recursive: true });
              writeFileSync(join(folder, 'deep', 'er', 'file'), 'x');
            }
            ready.open(folders);
            if (how === 'is cancelled') await new Promise((resolve) => signal.addEventListener('abort', resolve));
            await goOn.opened;
            if (how === 'throws') throw new Error('no');
            signal.throwIfAborted();
          },
        });
        await queue.work([type]);
        const { id: job } = await queue.enqueue(type, null);
        const folders = await ready.opened;
        expect(new Set(folders).size).toBe(2);
        for (const folder of folders) expect(statSync(folder).mode & 0o777).toBe(0o700);
        expect(await things(queue)).toHaveLength(2);
        if (how === 'is cancelled') await queue.cancel(job);
        goOn.open();
        await queue.wait(job);
        for (const folder of folders) expect(existsSync(folder)).toBe(false);
        expect(await things(queue)).toEqual([]);
        expect(readdirSync(join(dir, 'ns-lastout', 'temp'))).toEqual([]);
      },
    );

    it('of a run that takes hours stay as long as it runs, and those of a dead one go', async () => {
      const dir = temporaryFolder();
      const { queue, clock } = await byHand(on, { artifacts: { dir } });
      const ready = gate<string>();
      const goOn = gate();
      const type = defineJob<any, any>('long', {
        async run({ tempDir }) {
          ready.open(await tempDir());
          await goOn.opened;
        },
      });
      await queue.work([type], { lease: '1w' });
      await queue.enqueue(type, null);
      const folder = await ready.opened;
      const [record] = await things(queue);
      for (let i = 1; i <= 3; i++) {
        clock.at = t0 + i * (hour + 1);
        await queue.sweep();
        expect(existsSync(folder)).toBe(true);
      }
      // By the store's clock the claim has lapsed: whoever ran it is taken for dead.
      clock.at = t0 + 8 * day;
      await queue.sweep();
      expect(existsSync(folder)).toBe(false);
      expect(await things(queue)).not.toContain(record); // another attempt may have its own by now
      goOn.open();
    });
  });

  it('with artifacts in memory they are in a folder of the process, which closing takes away', async () => {
    const queue = await open('memory:');
    let folder = '';
    await completes(queue, async ({ tempDir }) => {
      folder = await tempDir();
      expect(existsSync(folder)).toBe(true);
    });
    expect(existsSync(folder)).toBe(false);
    expect(existsSync(join(folder, '..'))).toBe(true);
    await queue.close();
    expect(existsSync(join(folder, '..'))).toBe(false);
  });

  /** The system's folder for temporary files stands for the machine. */
  async function onMachine<T>(tmp: string, work: () => Promise<T>): Promise<T> {
    const usual = process.env.TMPDIR;
    process.env.TMPDIR = tmp;
    try {
      return await work();
    } finally {
      if (usual === undefined) delete process.env.TMPDIR;
      else process.env.TMPDIR = usual;
    }
  }

  /** The two folders that it left. */
  async function killedOn(tmp: string, file: string): Promise<string[]> {
    const env = { ...process.env, TMPDIR: tmp };
    const child = spawn(process.execPath, [compilePrograms().temp, file], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env,
    });
    const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
    child.kill('SIGKILL');
    await once(child, 'exit');
    const folders = line.split(' ');
    for (const folder of folders) expect(existsSync(folder)).toBe(true);
    return folders;
  }

  /** A queue on that machine, so long after now. */
  async function queueOn(tmp: string, file: string, laterMs: number): Promise<Queue> {
    const clock = { now: () => new Date(Date.now() + laterMs) };
    const queue = closedAfterwards(await onMachine(tmp, () => open(file, { artifacts: 'memory', clock })));
    await queue.stopPeriodicCleanup();
    return queue;
  }

  it('what a killed process left in a folder of its own goes with the record, by whoever sweeps next', async () => {
    const file = `sqlite:${join(temporaryFolder(), 'jobs.db')}`;
    const folders = await killedOn(tmpdir(), file);
    const queue = await queueOn(tmpdir(), file, 2 * hour);
    await queue.sweep();
    expect(await things(queue)).toEqual([]);
    for (const folder of folders) expect(existsSync(folder)).toBe(false);
    expect(existsSync(join(folders[0]!, '..'))).toBe(false);
  });

  it('what it left on another machine is left to that one, and so is its job', async () => {
    const file = `sqlite:${join(temporaryFolder(), 'jobs.db')}`;
    const [here, there] = [temporaryFolder(), temporaryFolder()];
    const folders = await killedOn(there, file);
    const other = await queueOn(here, file, 2 * hour);
    const records = await things(other);
    const [job] = (await other.find({ type: 'scratch' })).items;
    await other.sweep();
    expect(await other.remove(job!.id)).toMatchObject({ items: [{ outcome: 'held' }] });
    expect(await things(other)).toEqual(records);
    const back = await queueOn(there, file, 4 * hour);
    await back.sweep();
    expect(await things(back)).toEqual([]);
    for (const folder of folders) expect(existsSync(folder)).toBe(false);
    expect(await other.remove(job!.id)).toMatchObject({ items: [{ outcome: 'removed' }] });
  });

  it('a machine that does not come back within a week is waited for no longer', async () => {
    const file = `sqlite:${join(temporaryFolder(), 'jobs.db')}`;
    await killedOn(temporaryFolder(), file);
    const queue = await queueOn(temporaryFolder(), file, 7 * day + hour);
    await queue.sweep();
    expect(await things(queue)).toEqual([]);
  });

  it('a root that could not be made is made when the next one asks', async () => {
    const tmp = join(temporaryFolder(), 'later');
    const queue = closedAfterwards(await onMachine(tmp, () => open('memory:')));
    await completes(queue, async ({ tempDir }) => {
      await expect(tempDir()).rejects.toThrow('ENOENT');
      mkdirSync(tmp);
      expect(existsSync(await tempDir())).toBe(true);
    });
    await queue.close();
    expect(readdirSync(tmp)).toEqual([]);
  });

  it('in a folder that was named, no link is followed: none is made, listed or removed behind one', async () => {
    const dir = temporaryFolder();
    const outside = temporaryFolder();
    mkdirSync(join(outside, id));
    const temp = tempFolders(dir, createSystem());
    await temp.make(`z${id.slice(1)}`);
    rmSync(join(dir, 'temp'), { recursive: true });
    symlinkSync(outside, join(dir, 'temp'));
    await expectCode('STORE_DENIED', () => temp.make(id));
    await expectCode('STORE_DENIED', () => temp.delete(id, null));
    await expectCode('STORE_DENIED', () => idsIn(temp));
    expect(readdirSync(outside)).toEqual([id]);
    rmSync(join(dir, 'temp'));
    mkdirSync(join(dir, 'temp'));
    symlinkSync(outside, join(dir, 'temp', id));
    await expectCode('STORE_DENIED', () => temp.make(id));
    await temp.delete(id, null);
    expect(readdirSync(join(dir, 'temp'))).toEqual([]);
    expect(readdirSync(outside)).toEqual([id]);
  });

  it('the folder that was named may be a link, the one of the namespace in it may not', async () => {
    const dir = temporaryFolder();
    symlinkSync(temporaryFolder(), join(dir, 'named'));
    const artifacts = { dir: join(dir, 'named') };
    const queue = closedAfterwards(await open('memory:', { artifacts }));
    await completes(queue, async ({ artifact, tempDir }) => {
      expect(existsSync(await tempDir())).toBe(true);
      await artifact.put('a', 'kept');
    });
    await queue.close();
    symlinkSync(temporaryFolder(), folderOf(artifacts.dir, 'other'));
    await expectCode('STORE_DENIED', () => open('memory:', { artifacts, namespace: 'other' }));
  });

  it('a record that names some other place removes nothing', async () => {
    const { temp } = (await openPlace(
      { in: 'memory', maxBytes: undefined, maxBytesPerJob: undefined },
      null,
      createSystem(),
      'lastout',
    ))!;
    const outside = temporaryFolder();
    mkdirSync(join(outside, id));
    const asName = relative(tmpdir(), outside);
    for (const place of [
      outside,
      asName,
      `../${asName}`,
      '..',
      '',
      'lastout-',
      `lastout-${'a'.repeat(20)}/../${asName}`,
    ])
      await temp.delete(id, place);
    expect(existsSync(join(outside, id))).toBe(true);
  });

  it('an attempt may have a hundred of them', async () => {
    const queue = closedAfterwards(await open('memory:'));
    const job = await runJob(queue, async ({ tempDir }) => {
      for (let i = 0; i <= 100; i++) await tempDir();
    });
    expect((await queue.get(job))!.error).toMatchObject({ code: 'ARTIFACT_QUOTA' });
    expect(await things(queue)).toEqual([]);
  });
});
