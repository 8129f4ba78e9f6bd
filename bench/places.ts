/** Where things are: this program is built into `.cache/bench`, and its peers stay where they are installed. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Entrant } from './plan.js';

const built = fileURLToPath(new URL('.', import.meta.url));
export const root = join(built, '..', '..', '..');
export const cache = join(root, '.cache');
/** This folder, unbuilt. */
export const home = join(root, 'bench');

export function moduleOf({ kind, module }: Pick<Entrant, 'kind' | 'module'>): string {
  if (kind === 'earlier') return module;
  return kind === 'peer' ? join(home, 'peers', module) : join(built, 'systems', module);
}
