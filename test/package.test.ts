// The package as a user gets it: what is in the tarball, whether it installs, loads and type-checks outside this repository.
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
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
