// README.md tells the truth: its quick start runs as printed, on the package as users get it, and its commands are the real ones.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type Consumer, createConsumer, packageJson, root, tool } from './package/consumer.js';

const path = join(root, 'README.md');
const readme = existsSync(path) ? readFileSync(path, 'utf8') : '';
const testCommand = 'npm ci && npm test';

/** The first fenced block of a language after a marker; nothing but blank space may stand between them. */
function blockAfter(marker: string, language: string): string {
  const found = new RegExp(`<!-- ${marker} -->\\s*\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(readme);
  if (!found) throw new Error(`README.md has no \`\`\`${language} block right after <!-- ${marker} -->`);
  return found[1] ?? '';
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
    const options = { module: 'nodenext', target: 'es2023', lib: ['es2023', 'esnext.disposable'], types: ['node'] };
    const compilerOptions = { ...options, strict: true, skipLibCheck: true, noEmit: true };
    consumer.write('tsconfig.json', JSON.stringify({ compilerOptions, files: ['quick-start.ts'] }));
    await consumer.run(tool('tsc'), '-p', '.');
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
