/** Installs the peers, from the lock file of this folder, when it has changed since. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { home } from './places.js';

export function installPeers(): void {
  const lock = createHash('sha256')
    .update(readFileSync(join(home, 'package-lock.json')))
    .digest('hex');
  const stamp = join(home, 'node_modules', '.installed');
  const wanted = `${lock} ${process.version}`;
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return;
  console.log('Installing the peers. better-sqlite3 may have to be compiled, which takes two or three minutes.');
  const { status } = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: home,
    stdio: 'inherit',
  });
  if (status !== 0) throw new Error('npm ci in bench/ failed: the peers cannot be measured.');
  writeFileSync(stamp, wanted);
}

/** Versions of what is measured, as they are installed. */
export function peerVersions(): Readonly<Record<string, string>> {
  const names = ['bullmq', 'bee-queue', 'graphile-worker', 'pg-boss', 'plainjob', 'better-sqlite3', 'fastq'];
  const versions: Record<string, string> = {};
  for (const name of names) {
    const file = join(home, 'node_modules', name, 'package.json');
    if (existsSync(file)) versions[name] = (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
  }
  return versions;
}
