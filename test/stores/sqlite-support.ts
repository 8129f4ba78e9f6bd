// What the tests of the SQLite store share: a store by the real clock, plain connections, and code in another process.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Store, StoreContext, StoreFactory } from '../../src/core/store.js';
import { loadDriver, single, type SqliteDatabase, type Value } from '../../src/stores/sqlite/driver.js';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { createSystem } from '../../src/system.js';

export { newJob } from './new-job.js';

export const system = createSystem();

export function openStore(where: string | StoreFactory, context: Partial<StoreContext> = {}): Promise<Store> {
  const factory = typeof where === 'string' ? sqliteStore({ file: where }) : where;
  return factory.open({ system, namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY, ...context });
}

/** A connection of its own, as another program would have it. */
export async function connect(file: string): Promise<SqliteDatabase> {
  const { DatabaseSync } = await loadDriver();
  return new DatabaseSync(file);
}

export function valueOf(db: SqliteDatabase, text: string): Value | undefined {
  return single(db, text);
}

/** Runs the body of an async function in a new process, with what this file exports at hand; what it returns comes back. */
export async function inChild(body: string): Promise<unknown> {
  const program = `
    const { openStore, connect, valueOf, newJob, loadDriver } = await import(${JSON.stringify(import.meta.url)});
    const answer = await (async () => { ${body} })();
    process.stdout.write(JSON.stringify(answer), () => process.exit());
  `;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--import', 'tsx', '--input-type=module', '--eval', program],
    { cwd: fileURLToPath(new URL('../..', import.meta.url)), env: { ...process.env, NODE_OPTIONS: '' } },
  );
  return JSON.parse(stdout) as unknown;
}

export { loadDriver };
