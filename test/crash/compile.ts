import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const root = fileURLToPath(new URL('../..', import.meta.url));
// Inside the repository, so that the drivers are found.
const home = join(root, '.cache', 'programs');

export interface Programs {
  readonly worker: string;
  readonly producer: string;
  readonly caller: string;
  readonly limited: string;
  readonly maintainer: string;
  readonly provider: string;
  readonly lessee: string;
  readonly finalizer: string;
}

/**
 * The programs of this folder and the library as plain JavaScript. A test that starts a hundred processes on two cores
 * would otherwise spend most of its time on translating the same sources again and again. They are kept for the next
 * test that finds the sources unchanged.
 */
export function compilePrograms(): Programs {
  const sources = new Map<string, string>();
  for (const from of ['src', 'test/crash']) {
    for (const path of readdirSync(join(root, from), { recursive: true, encoding: 'utf8' }).sort()) {
      if (!path.endsWith('.ts') || path.endsWith('.test.ts')) continue;
      sources.set(join(from, path), readFileSync(join(root, from, path), 'utf8'));
    }
  }
  const hash = createHash('sha256');
  for (const [path, text] of sources) hash.update(`${path}\0${text}\0`);
  const folder = join(home, hash.digest('hex').slice(0, 16));
  if (!existsSync(folder)) translate(sources, folder);
  const program = (name: string): string => join(folder, 'test/crash', `${name}.js`);
  return {
    worker: program('worker'),
    producer: program('producer'),
    caller: program('caller'),
    limited: program('limited'),
    maintainer: program('maintainer'),
    provider: program('provider'),
    lessee: program('lessee'),
    finalizer: program('finalizer'),
  };
}

function translate(sources: ReadonlyMap<string, string>, folder: string): void {
  mkdirSync(home, { recursive: true });
  // Written aside and then moved: others may be about to use it, or to make it, too.
  const aside = mkdtempSync(`${folder}.`);
  for (const [path, text] of sources) {
    const { outputText } = ts.transpileModule(text, {
      compilerOptions: { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true },
    });
    const target = join(aside, path.replace(/\.ts$/, '.js'));
    mkdirSync(dirname(target), { recursive: true });
    writeFileSync(target, outputText);
  }
  try {
    renameSync(aside, folder);
  } catch (error) {
    rmSync(aside, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
}
