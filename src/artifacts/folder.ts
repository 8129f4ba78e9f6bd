/** The folder of one namespace: what it cannot find in its own store, it takes for lost, so it sees only its own files. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';

/** The same on every file system: no capitals, and no dot at the end. */
const plainName = /^[0-9a-z](?:[0-9a-z._-]*[0-9a-z_-])?$/;

export function folderOf(dir: string, namespace: string): string {
  if (plainName.test(namespace)) return join(dir, `ns-${namespace}`);
  return join(dir, `nsx-${createHash('sha256').update(namespace).digest('hex')}`);
}
