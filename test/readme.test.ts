// README.md tells the truth: its quick start runs as printed, on the package as users get it, and its commands are the real ones.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type Consumer, createConsumer, packageJson, root, tool } from './package/consumer.js';

const path = join(root, 'README.md');
const readme = existsSync(path) ? readFileSync(path, 'utf8') : '';
const testCommand = 'npm ci && npm test';

/** The first fenced block of a language after a marker; nothing but blank space may stand between them. */
function blockAfter(marker: string, language: string, page = readme): string {
  const found = new RegExp(`<!-- ${marker} -->\\s*\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(page);
  if (!found) throw new Error(`There is no \`\`\`${language} block right after <!-- ${marker} -->`);
  return found[1] ?? '';
}

/** As a user's project has it: strict. */
function typeCheck(consumer: Consumer, files: readonly string[]): Promise<string> {
  const options = { module: 'nodenext', target: 'es2023', lib: ['es2023', 'esnext.disposable'], types: ['node'] };
  const compilerOptions = { ...options, strict: true, skipLibCheck: true, noEmit: true };
  consumer.write('tsconfig.json', JSON.stringify({ compilerOptions, files }));
  return consumer.run(tool('tsc'), '-p', '.');
}

describe('README', () => {
  let consumer: Consumer;
  beforeAll(async () => {
    consumer = await createConsumer(inject('tarball'), ['zod', '@photostructure/sqlite', '@types/node']);
  });
  afterAll(() => consumer?.[Symbol.dispose]());

  it('has a quick start that runs as printed and prints what it says', async () => {
    consumer.write('quick-start.ts', blockAfter('quick-start', 'ts'));
    const printed = await consumer.run(tool('tsx'), 'quick-start.ts');
    expect(printed.trim()).toBe(blockAfter('quick-start-output', 'text').trim());
  });

  it('has a quick start that type-checks', async () => {
    consumer.write('quick-start.ts', blockAfter('quick-start', 'ts'));
    await typeCheck(consumer, ['quick-start.ts']);
  });

  it('says how to install it: by the name of the file that npm pack writes', () => {
    expect(readme).toContain(`lastout-${packageJson.version}.tgz`);
  });

  it('names the commands to start and to test', () => {
    expect(readme).toContain('npm ci && npm start');
    expect(readme).toContain(testCommand);
    expect(Object.keys(packageJson.scripts)).toEqual(expect.arrayContaining(['start', 'test']));
  });

  it('gives the very command that is run for every change', () => {
    const lines = readFileSync(join(root, '.ci', 'run'), 'utf8').split('\n');
    const commands = lines.filter((line) => line.trim() !== '' && !line.startsWith('#') && !/^(set|cd) /.test(line));
    expect(commands).toEqual([testCommand]);
  });
});

describe('the pages', () => {
  const page = (name: string): string => readFileSync(join(root, 'docs', `${name}.md`), 'utf8');
  let consumer: Consumer;
  beforeAll(async () => {
    const linked = ['@types/node', 'pg', '@types/pg', 'postgres', 'drizzle-orm', '@photostructure/sqlite'];
    consumer = await createConsumer(inject('tarball'), linked);
  });
  afterAll(() => consumer?.[Symbol.dispose]());

  it('artifacts.md has an example that type-checks', async () => {
    consumer.write('render.ts', 'export declare function render(input: object, folder: string): Promise<Uint8Array>;');
    consumer.write('artifacts.ts', blockAfter('example', 'ts', page('artifacts')));
    await typeCheck(consumer, ['artifacts.ts']);
  });

  it('docker.md has an example that type-checks', async () => {
    consumer.write('docker.ts', blockAfter('example', 'ts', page('docker')));
    await typeCheck(consumer, ['docker.ts']);
  });

  it('leases.md has an example that type-checks', async () => {
    consumer.write(
      'cloud.ts',
      `import type { Json } from 'lastout';
       export declare const cloud: {
         start(what: { name: string; size: string; signal: AbortSignal }): Promise<{ address: string }>;
         remove(name: string, signal: AbortSignal): Promise<number>;
         all(signal: AbortSignal): Promise<{ name: string; createdAt: Date }[]>;
         build(info: Json, repository: string, signal: AbortSignal): Promise<void>;
       };`,
    );
    consumer.write('leases.ts', blockAfter('example', 'ts', page('leases')));
    await typeCheck(consumer, ['leases.ts']);
  });

  it('transactions.md has examples that type-check', async () => {
    // As on Node 20, whose types know of no other.
    const example = blockAfter('example', 'ts', page('transactions')).replace('node:sqlite', '@photostructure/sqlite');
    consumer.write('example.ts', example);
    consumer.write('client.ts', blockAfter('postgres', 'ts', page('transactions')));
    await typeCheck(consumer, ['example.ts', 'client.ts']);
  });

  it('transactions.md has clients that type-check, as far as they are at hand', async () => {
    const rows = new Map(
      [...page('transactions').matchAll(/^\| ([\w.]+), .*\| `(\{ query: .*\})` \|$/gm)].map(([, name, tx]) => [
        name!,
        tx!,
      ]),
    );
    expect([...rows.keys()]).toEqual(['postgres.js', 'Kysely', 'Knex', 'Prisma']);
    // Of the others it is declared what their own types say of the functions that are used.
    consumer.write(
      'clients.ts',
      `import { open } from 'lastout';
       import { drizzle } from 'drizzle-orm/node-postgres';
       import { drizzle as drizzleOverPostgres } from 'drizzle-orm/postgres-js';
       import postgres from 'postgres';
       ${blockAfter('drizzle', 'ts', page('transactions'))}
       const queue = await open('postgres://…');
       await drizzle('postgres://…').transaction((tx) => queue.enqueue('a', 1, { tx: overDrizzle(tx) }));
       await drizzleOverPostgres('postgres://…').transaction((tx) => queue.enqueue('a', 1, { tx: overDrizzle(tx) }));
       await postgres('postgres://…').begin((tx) => queue.enqueue('a', 1, { tx: ${rows.get('postgres.js')} }));

       declare const CompiledQuery: { raw(text: string, values: readonly unknown[]): { sql: string } };
       declare const kysely: { executeQuery<R>(query: { sql: string }): Promise<{ readonly rows: R[] }> };
       await ((trx: typeof kysely) => queue.enqueue('a', 1, { tx: ${rows.get('Kysely')} }))(kysely);
       type Binding = string | number | boolean | null | Date | Buffer | object;
       declare const knex: { raw<T = any>(text: string, values: readonly Binding[] | Binding): PromiseLike<T> };
       await ((trx: typeof knex) => queue.enqueue('a', 1, { tx: ${rows.get('Knex')} }))(knex);
       declare const prisma: { $queryRawUnsafe<T = unknown>(text: string, ...values: any[]): Promise<T> };
       await ((tx: typeof prisma) => queue.enqueue('a', 1, { tx: ${rows.get('Prisma')} }))(prisma);`,
    );
    await typeCheck(consumer, ['clients.ts']);
  });
});
