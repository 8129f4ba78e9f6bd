/** The programs that tests start as processes of their own, as plain JavaScript. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

const root = fileURLToPath(new URL('..', import.meta.url));
// Inside the repository, so that the drivers are found.
const home = join(root, '.cache', 'programs');

const sources = {
  worker: 'test/crash/worker.ts',
  producer: 'test/crash/producer.ts',
  caller: 'test/crash/caller.ts',
  limited: 'test/crash/limited.ts',
  maintainer: 'test/crash/maintainer.ts',
  provider: 'test/crash/provider.ts',
  lessee: 'test/crash/lessee.ts',
  finalizer: 'test/crash/finalizer.ts',
  alive: 'test/alive-child.ts',
  awaited: 'test/awaited-child.ts',
  harmless: 'test/harmless-child.ts',
  failures: 'test/failures-child.ts',
  schedules: 'test/schedules-child.ts',
  sweep: 'test/sweep-child.ts',
  temp: 'test/temp-child.ts',
  modes: 'test/worker-child.ts',
  flat: 'test/flat/child.ts',
  sqliteTransactions: 'test/stores/sqlite-transactions-child.ts',
  sqliteWal: 'test/stores/sqlite-wal-child.ts',
  locks: 'test/stores/locks-child.ts',
} as const;

/** Their paths. */
export type Programs = { readonly [name in keyof typeof sources]: string };

/**
 * The library is a few files for all of them: tests start hundreds of processes, and translating the same sources or loading
 * hundreds of files again and again would take longer than what they are started for. They are kept for the next test that
 * finds the sources unchanged.
 */
export function compilePrograms(): Programs {
  return (made ??= compile());
}

let made: Programs | null = null;

function compile(): Programs {
  const hash = createHash('sha256');
  for (const from of ['src', 'test']) {
    for (const path of readdirSync(join(root, from), { recursive: true, encoding: 'utf8' }).sort()) {
      if (!path.endsWith('.ts') || path.endsWith('.test.ts')) continue;
      hash
        .update(`${path}\0`)
        .update(readFileSync(join(root, from, path)))
        .update('\0');
    }
  }
  const folder = join(home, hash.digest('hex').slice(0, 16));
  if (!existsSync(folder)) bundle(folder);
  const paths = Object.keys(sources).map((name) => [name, join(folder, `${name}.js`)]);
  return Object.fromEntries(paths) as Programs;
}

function bundle(folder: string): void {
  mkdirSync(home, { recursive: true });
  // Written aside and then moved: others may be about to use it, or to make it, too.
  const aside = mkdtempSync(`${folder}.`);
  buildSync({
    absWorkingDir: root,
    entryPoints: { ...sources },
    outdir: aside,
    bundle: true,
    splitting: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    target: 'node20',
    logLevel: 'warning',
  });
  try {
    renameSync(aside, folder);
  } catch (error) {
    rmSync(aside, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
}
