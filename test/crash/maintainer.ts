// A maintainer that kills itself at the n-th call of its pass: node maintainer.js STORE FOLDER N before|after|never MINUTE
import { fileBlobs } from '../../src/artifacts/files.js';
import { madeFolder } from '../../src/artifacts/folder.js';
import type { Store, StoreContext } from '../../src/core/store.js';
import { open } from '../../src/index.js';
import { openStore } from '../../src/open-store.js';
import { createSystem } from '../../src/system.js';

const [where, dir, n, when, minute] = process.argv.slice(2) as [string, string, string, string, string];
// A day later all that has ended is due to go, and a minute later the term of the one before is over.
const clock = { now: () => new Date(Date.now() + 25 * 3_600_000 + Number(minute) * 60_000) };
const system = createSystem(clock);
let calls = 0;

async function counted<T>(call: () => Promise<T>): Promise<T> {
  const isLast = ++calls === Number(n);
  if (isLast && when === 'before') process.kill(process.pid, 'SIGKILL');
  const answer = await call();
  if (isLast && when === 'after') process.kill(process.pid, 'SIGKILL');
  return answer;
}

function withCount(store: Store): Store {
  return {
    ...store,
    sweep: (request) => counted(() => store.sweep(request)),
    sweepInTerm: (term, request) => counted(() => store.sweepInTerm(term, request)),
    endTerm: (holder, entry) => counted(() => store.endTerm(holder, entry)),
    find: (request) => counted(() => store.find(request)),
    move: (request) => counted(() => store.move(request)),
  };
}

const engine = where.startsWith('sqlite') ? 'sqlite' : where.startsWith('redis') ? 'redis' : 'postgres';
const blobs = await fileBlobs(await madeFolder(dir, 'lastout'), system);
const patience = { waitForMs: 0, logger: console };
const factory = {
  engine,
  open: async (context: StoreContext) => withCount(await openStore(where, context, patience)),
} as const;
const artifacts = { blobs: { ...blobs, delete: (id: string) => counted(() => blobs.delete(id)) } };
const cleanup = { maxStoredJobs: Number.POSITIVE_INFINITY };
const queue = await open(factory, { clock, artifacts, cleanup });
await queue.sweep();
await queue.close();
