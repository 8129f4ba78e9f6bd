// The types as users meet them: one program of good and bad lines, compiled against the packed package by every TypeScript
// that is supported, with the types of Node and without, and with the declarations of the package checked as well.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { type Consumer, createConsumer, execute, packageJson, root } from './package/consumer.js';

const folder = join(root, 'test', 'types');
const compilers = {
  '5.4': join(folder, '5.4'),
  '5.9': join(folder, '5.9'),
  '6.0': root,
  '7.0': join(folder, '7.0'),
};
const places = {
  'with @types/node': { types: ['node'], lib: ['es2023'] },
  'without @types/node': { types: [], lib: ['es2022', 'dom'] },
};
const entries = Object.keys(packageJson.exports).filter((entry) => entry !== './package.json');

let consumer: Consumer;
beforeAll(async () => {
  consumer = await createConsumer(inject('tarball'));
  consumer.write('program.ts', readFileSync(join(folder, 'program.ts'), 'utf8'));
  consumer.write(
    'entries.ts',
    entries.map((entry) => `export * as ${nameOf(entry)} from '${entry.replace('.', 'lastout')}';`).join('\n'),
  );
});
afterAll(() => consumer?.[Symbol.dispose]());

describe.each(Object.entries(compilers))('types: TypeScript %s', (version, place) => {
  const compiler = join(place, 'node_modules', 'typescript');

  it('is that one', async () => {
    const { version: found } = JSON.parse(readFileSync(join(compiler, 'package.json'), 'utf8')) as { version: string };
    expect(found.startsWith(`${version}.`)).toBe(true);
  });

  it.each(Object.entries(places))(
    'takes the good lines and refuses the bad ones, %s',
    async (_where, { types, lib }) => {
      const compilerOptions = {
        ...{ target: 'es2022', module: 'nodenext', moduleResolution: 'nodenext', lib, types },
        ...{ strict: true, exactOptionalPropertyTypes: true, skipLibCheck: false, noEmit: true },
        typeRoots: [join(root, 'node_modules', '@types')],
      };
      consumer.write('tsconfig.json', JSON.stringify({ compilerOptions, files: ['program.ts', 'entries.ts'] }));
      const printed = await execute(process.execPath, [join(compiler, 'bin', 'tsc'), '-p', '.', '--pretty', 'false'], {
        cwd: consumer.folder,
      });
      expect(printed).toBe('');
    },
  );
});

const nameOf = (entry: string): string => entry.replace(/\W/g, '_');
