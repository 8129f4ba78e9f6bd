// A project outside the repository that uses the packed package, as a stranger's would.
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

export const root = join(import.meta.dirname, '..', '..');

interface PackageJson {
  readonly version: string;
  readonly engines: { readonly node: string };
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly scripts: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, unknown>>;
}
export const packageJson = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as PackageJson;

/** The path of a program of the repository's own tools. */
export const tool = (name: string): string => join(root, 'node_modules', '.bin', name);

/** Runs a program to its end and answers what it printed; a failure tells all of it. */
export function execute(command: string, args: readonly string[], options: { cwd: string }): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(command, args, { ...options, maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${command} ${args.join(' ')}\n${stdout}${stderr}${error.message}`));
      else resolve(stdout);
    });
    child.stdin?.end();
  });
}

export interface Consumer extends Disposable {
  readonly folder: string;
  write(name: string, text: string): void;
  run(command: string, ...args: string[]): Promise<string>;
}

/**
 * Installs the tarball, and the package's dependencies from the repository's own copies, so no network is needed.
 * `linked` packages are only put within reach: they belong to the project, not to the package.
 */
export async function createConsumer(tarball: string, linked: readonly string[] = []): Promise<Consumer> {
  const folder = mkdtempSync(join(tmpdir(), 'lastout-consumer-'));
  const consumer: Consumer = {
    folder,
    write: (name, text) => writeFileSync(join(folder, name), text),
    run: (command, ...args) => execute(command, args, { cwd: folder }),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
  consumer.write('package.json', JSON.stringify({ name: 'consumer', private: true, type: 'module' }));
  const dependencies = Object.keys(packageJson.dependencies ?? {}).map((name) => join(root, 'node_modules', name));
  await consumer.run(
    'npm',
    'install',
    tarball,
    ...dependencies,
    '--install-links',
    '--offline',
    '--no-audit',
    '--no-fund',
  );
  for (const name of linked) {
    const path = join(folder, 'node_modules', name);
    mkdirSync(dirname(path), { recursive: true });
    symlinkSync(join(root, 'node_modules', name), path, 'dir');
  }
  return consumer;
}
