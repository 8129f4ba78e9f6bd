/** Stored data as files: taken from a store while it is in use, and put into an empty one. */
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import type { View } from './view.js';

export type StoredOn = 'sqlite' | 'postgres' | 'redis';
export const namespaces = ['lastout', 'coded'] as const;
export type Namespace = (typeof namespaces)[number];

export interface Stored {
  /** SQLite: the file in base64. PostgreSQL: SQL. Redis: JSON, of each key what DUMP answers, in base64. */
  readonly data: string;
  readonly namespaces: {
    readonly [name in Namespace]: {
      readonly view: View;
      /** Its artifact folder: paths, and contents in base64; null is a folder. */
      readonly files: { readonly [path: string]: string | null };
      /** The names of the things that its leases stand for. */
      readonly boxes: readonly string[];
      /** By the clock of the store. */
      readonly at: string;
    };
  };
}

const fixtures = join(import.meta.dirname, '..', 'fixtures');
const fileOf = (version: string, engine: StoredOn): string => join(fixtures, version, `${engine}.json.gz`);

/** The versions of lastout whose data are kept. */
export const versions = (): string[] => readdirSync(fixtures).sort();

export function readStored(version: string, engine: StoredOn): Stored {
  return JSON.parse(gunzipSync(readFileSync(fileOf(version, engine))).toString('utf8')) as Stored;
}

export function writeStored(version: string, engine: StoredOn, stored: Stored): number {
  const file = fileOf(version, engine);
  mkdirSync(dirname(file), { recursive: true });
  const bytes = gzipSync(JSON.stringify(stored), { level: 9 });
  writeFileSync(file, bytes);
  return bytes.length;
}

export function filesIn(folder: string): Record<string, string | null> {
  const files: Record<string, string | null> = {};
  for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()) {
    const full = join(folder, path);
    files[path] = statSync(full).isDirectory() ? null : readFileSync(full).toString('base64');
  }
  return files;
}
