/** Stored data, put into stores and folders that go after the test. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { Client } from 'pg';
import { emptyPostgres, emptyRedis } from '../services.js';
import { temporaryFolder } from '../support.js';
import type { StoredOn } from './stored.js';

/** A new folder with these files. */
export function folderWith(files: { readonly [path: string]: string | null }): string {
  const folder = temporaryFolder();
  for (const [path, content] of Object.entries(files)) {
    if (content === null) mkdirSync(join(folder, path), { recursive: true });
    else writeFileSync(join(folder, path), Buffer.from(content, 'base64'));
  }
  return folder;
}

/** The URL of a store with these data. */
export const restore: { readonly [engine in StoredOn]: (data: string) => Promise<string> } = {
  async sqlite(data) {
    const file = join(temporaryFolder(), 'jobs.db');
    writeFileSync(file, Buffer.from(data, 'base64'));
    return `sqlite:${file}?synchronous=normal`;
  },
  async postgres(data) {
    const url = await emptyPostgres();
    const client = new Client({ connectionString: url });
    await client.connect();
    await client.query('drop schema lastout cascade');
    await client.query(data);
    await client.end();
    return url;
  },
  async redis(data) {
    const url = await emptyRedis();
    const client = new Redis(url);
    for (const [key, dump] of Object.entries(JSON.parse(data) as { [key: string]: string }))
      await client.restore(key, 0, Buffer.from(dump, 'base64'));
    client.disconnect();
    return url;
  },
};
