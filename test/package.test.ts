// The package as a user gets it: what is in the tarball, whether it installs, loads and type-checks outside this repository.
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it, type TestContext } from 'vitest';
import { installNode, requiring } from '../scripts/nodes.mjs';
import { cache } from '../scripts/services/index.mjs';
import { type Consumer, createConsumer, execute, packageJson, root, tool } from './package/consumer.js';

const tarball = inject('tarball');

describe('package: the tarball', () => {
  let files: string[];
  beforeAll(async () => {
    files = (await execute('tar', ['-tzf', tarball], { cwd: root })).trim().split('\n');
  });

  it('holds the build and the pages, and nothing else', () => {
    const pages = ['package.json', 'README.md', 'CHANGELOG.md', 'SECURITY.md', 'LICENSE'].map(
      (name) => `package/${name}`,
    );
    expect(files).toEqual(expect.arrayContaining(pages));
    const others = files.filter((file) => !pages.includes(file));
    const expected = /^package\/(dist\/.+(\.js|\.d\.ts)|docs\/.+\.md)$/;
    expect(others.filter((file) => !expected.test(file))).toEqual([]);
    expect(others.filter((file) => /\.test\.|\.spec\.|__/.test(file))).toEqual([]);
  });

  it('runs nothing when it is installed', () => {
    const hooks = ['preinstall', 'install', 'postinstall', 'preprepare', 'prepare', 'postprepare'];
    expect(Object.keys(packageJson.scripts).filter((name) => hooks.includes(name))).toEqual([]);
    expect(files).not.toContain('package/binding.gyp');
  });

  it('satisfies publint', async () => {
    await execute(tool('publint'), ['run', tarball, '--strict'], { cwd: root });
  });

  it('has types that resolve for every importer of ES modules', async () => {
    await execute(tool('attw'), [tarball, '--profile', 'esm-only', '--no-color'], { cwd: root });
  });
});

describe('package: a project that installs it', () => {
  const entries = Object.keys(packageJson.exports).filter((entry) => entry !== './package.json');
  const specifiers = entries.map((entry) => entry.replace(/^\./, 'lastout'));
  let consumer: Consumer;
  beforeAll(async () => {
    consumer = await createConsumer(tarball, ['@types/node']);
  });
  afterAll(() => consumer?.[Symbol.dispose]());

  it.each(specifiers)('imports %s, without any optional driver', async (specifier) => {
    consumer.write('load.mjs', `console.log(Object.keys(await import('${specifier}')).length > 0)`);
    expect(await consumer.run(process.execPath, 'load.mjs')).toBe('true\n');
  });

  it('runs a job on the memory store', async () => {
    consumer.write(
      'job.mjs',
      `import { defineJob, open } from 'lastout';
       const queue = await open('memory:');
       const greet = defineJob('greet', { run: ({ input }) => 'hello ' + input });
       const { id } = await queue.enqueue(greet, 'world');
       await queue.work([greet]);
       console.log((await queue.wait(id)).result);
       await queue.close();`,
    );
    expect(await consumer.run(process.execPath, 'job.mjs')).toBe('hello world\n');
  });

  /** A CommonJS file that requires every entry and runs a job, on another Node. */
  async function requireOn(version: string, { skip }: TestContext): Promise<string> {
    const { node, missing, why } = await installNode(version, join(cache, 'nodes'));
    if (node === undefined) return missing === 'network' && process.env['CI'] ? expect.unreachable(why) : skip(why);
    consumer.write(
      'load.cjs',
      `const entries = ${JSON.stringify(specifiers)}.map((name) => Object.keys(require(name)).length > 0);
       const { defineJob, open } = require('lastout');
       const greet = defineJob('greet', { run: ({ input }) => 'hello ' + input });
       open('memory:').then(async (queue) => {
         await queue.enqueue(greet, 'world');
         const { ran } = await queue.runUntilIdle([greet]);
         console.log(process.version, entries.every((loaded) => loaded), ran);
         await queue.close();
       });`,
    );
    return consumer.run(node, 'load.cjs');
  }

  it('engines names the Nodes from which require works', () => {
    const [first, second] = requiring.can;
    expect(packageJson.engines.node).toBe(`^${first} || >=${second}`);
  });

  for (const version of requiring.can)
    it(`is required by CommonJS on Node ${version}`, async (context) => {
      expect(await requireOn(version, context)).toBe(`v${version} true 1\n`);
    });

  for (const version of requiring.cannot)
    it(`is not required by CommonJS on Node ${version}, which engines leaves out`, async (context) => {
      await expect(requireOn(version, context)).rejects.toThrow('ERR_REQUIRE_ESM');
    });

  it.each([
    ['nodenext', 'nodenext'],
    ['bundler', 'esnext'],
  ])('type-checks under moduleResolution %s, libraries included', async (moduleResolution, module) => {
    const imports = specifiers.map((specifier, index) => `import * as entry${index} from '${specifier}';`);
    consumer.write(
      'types.ts',
      `${imports.join('\n')}
       import { defineJob, open, type Job, type Queue } from 'lastout';
       const queue: Queue = await open('memory:', { cleanup: { maxStoredJobs: 10 } });
       const greet = defineJob<string, string>('greet', { run: async ({ input }) => input.toUpperCase() });
       const { id } = await queue.enqueue(greet, 'world', { delay: '5s' });
       const job: Job | null = await queue.get(id);
       // @ts-expect-error: the input of this type is a string
       await queue.enqueue(greet, 5);
       export { job, ${specifiers.map((_, index) => `entry${index}`).join(', ')} };`,
    );
    const options = {
      module,
      moduleResolution,
      target: 'es2023',
      lib: ['es2023', 'esnext.disposable'],
      types: ['node'],
    };
    const compilerOptions = {
      ...options,
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: false,
      noEmit: true,
    };
    consumer.write('tsconfig.json', JSON.stringify({ compilerOptions, files: ['types.ts'] }));
    await consumer.run(tool('tsc'), '-p', '.');
  });
});
