import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const root = fileURLToPath(new URL('../..', import.meta.url));

export interface Programs extends Disposable {
  readonly worker: string;
  readonly producer: string;
  readonly caller: string;
  readonly limited: string;
}

/**
 * The programs of this folder and the library as plain JavaScript. A test that starts a hundred processes on two cores
 * would otherwise spend most of its time on translating the same sources again and again.
 */
export function compilePrograms(): Programs {
  const cache = join(root, '.cache');
  mkdirSync(cache, { recursive: true });
  // Inside the repository, so that the driver is found.
  const folder = mkdtempSync(join(cache, 'crash-'));
  for (const from of ['src', 'test/crash']) {
    for (const path of readdirSync(join(root, from), { recursive: true, encoding: 'utf8' })) {
      if (!path.endsWith('.ts') || path.endsWith('.test.ts')) continue;
      const { outputText } = ts.transpileModule(readFileSync(join(root, from, path), 'utf8'), {
        compilerOptions: { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true },
      });
      const target = join(folder, from, path.replace(/\.ts$/, '.js'));
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, outputText);
    }
  }
  const program = (name: string): string => join(folder, 'test/crash', `${name}.js`);
  return {
    worker: program('worker'),
    producer: program('producer'),
    caller: program('caller'),
    limited: program('limited'),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}
