// Packs the package once for all tests that look at it from outside, and takes the tarball away again afterwards.
// `npm test` has built dist before; packing must not build it anew while other tests are reading it.
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { execute, root } from './consumer.js';

declare module 'vitest' {
  interface ProvidedContext {
    tarball: string;
  }
}

export default async function pack(project: TestProject): Promise<() => void> {
  if (!existsSync(join(root, 'dist', 'index.js'))) throw new Error('dist is missing; run "npm run build" first');
  const folder = mkdtempSync(join(tmpdir(), 'lastout-pack-'));
  const listing = await execute('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], {
    cwd: root,
  });
  const [packed] = JSON.parse(listing) as [{ filename: string }];
  project.provide('tarball', join(folder, packed.filename));
  return () => rmSync(folder, { recursive: true, force: true });
}
