// `npm run crash`.
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { run } from './run.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const help = `The proofs of test/crash and test/wire at any length: processes killed, connections broken, servers restarted.

  npm run crash                                     as often as npm test does it, on every store
  npm run crash -- --kills 1000 --store redis       kill -9 of workers, a thousand times
  npm run crash -- --faults 200 --store postgres    each kind of broken connection, and restarts, 200 times
  npm run crash -- --locks 15                       two processes that meet in every lock of PostgreSQL, for 15 seconds

  --store  sqlite, postgres or redis; left out: all of them`;

const { values } = parseArgs({
  options: {
    kills: { type: 'string' },
    faults: { type: 'string' },
    locks: { type: 'string' },
    store: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(help);
  process.exit(0);
}
const stores = values.locks ? [] : values.store ? [values.store] : ['sqlite', 'postgres', 'redis'];
const tests = values.locks ? ['test/stores/postgres-locks.test.ts'] : [];
for (const store of stores) {
  if (!['sqlite', 'postgres', 'redis'].includes(store))
    throw new Error(`--store is sqlite, postgres or redis, not ${store}`);
  // Who asks for one of the two gets that alone.
  if (values.kills || !values.faults) tests.push(`test/crash/kill-${store}.test.ts`);
  if ((values.faults || !values.kills) && store !== 'sqlite') tests.push(`test/wire/${store}.test.ts`);
}
if (tests.length === 0) throw new Error('SQLite has no connections to break: give --kills');
const count = (name, text, unit = 1) => {
  if (text === undefined) return {};
  if (!/^[1-9]\d*$/.test(text)) throw new Error(`${text} is no number of times`);
  return { [name]: String(Number(text) * unit) };
};
process.exitCode = await run(
  process.execPath,
  // One after the other: each has the machine for itself.
  [join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', '--project=library', '--no-file-parallelism', ...tests],
  {
    cwd: root,
    env: {
      ...count('LASTOUT_KILLS', values.kills),
      ...count('LASTOUT_FAULTS', values.faults),
      ...count('LASTOUT_LOCKS_MS', values.locks, 1_000),
    },
  },
);
