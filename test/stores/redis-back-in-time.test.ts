// A server that is killed comes back without the end of its log: everybody goes on with what they remember, and what
// the scripts keep beside the rows says the same as the rows.
import { statSync } from 'node:fs';
import { it } from 'vitest';
import type { Ending } from '../../src/core/ending.js';
import type { Claimed, NewJob, Store } from '../../src/core/store.js';
import { redisStore } from '../../src/stores/redis/index.js';
import { describeOn } from '../engines.js';
import { privateRedis } from '../services.js';
import { cutLog, logOf } from '../services/redis.js';
import { meddle, produce, request, tend, work } from './races/acts.js';
import { type Act, all, auditInQuiet, opened } from './races/race.js';
import { Ledger } from './races/ledger.js';
import { auditKeys } from './redis-audit.js';
import { newJob, plainClient } from './redis-support.js';

/** LASTOUT_RACES runs more. */
const rounds = Number(process.env.LASTOUT_RACES ?? 3) + 1;
const timeout = 60_000 + rounds * 10_000;
const owner = 'keeper';
const below = (n: number): number => Math.floor(Math.random() * n);

async function actFor(ms: number, stores: readonly Store[]): Promise<void> {
  const acts: Act[] = [
    ...stores.map(
      (store): Act =>
        (to) =>
          produce(store, to),
    ),
    ...stores.map(
      (_, n): Act =>
        (to) =>
          work(stores, `worker-${n}`, to),
    ),
    (to) => meddle(stores[1]!, to),
    (to) => tend(stores[2]!, to),
  ];
  const end = Date.now() + ms;
  // What was said before the data went back need not be true any more.
  const world = { ledger: new Ledger(), given: Array.from({ length: 40 }, (_, n) => `given-${n}`) };
  await all(acts, world, () => Date.now() > end);
}

/** What one process has been told, some of it about things that the server will not know any more. */
interface Remembered {
  readonly jobs: NewJob[];
  readonly claims: Claimed[];
}

async function takeSome(store: Store, { jobs, claims }: Remembered): Promise<void> {
  const some = Array.from({ length: 1 + below(30) }, () =>
    newJob({ type: 'a', queue: 'q', ...(below(4) === 0 && { exclusiveKey: 'x' }) }),
  );
  await store.insert(some, { atomic: false });
  const claimed = await store.claim({ ...request, owner, slots: 5, ahead: 10, leaseMs: 60_000 });
  jobs.push(...some);
  if (claimed.jobs.length > 0) claims.push(claimed);
}

/** Heartbeats, notes, endings and enqueues that are repeated, of what is there and of what is not. */
async function goOn(store: Store, { jobs, claims }: Remembered): Promise<void> {
  const told = claims.map(({ epoch, jobs: held }) => ({ epoch, ids: held.map(({ id }) => id) }));
  await store.extend({
    owner,
    leaseMs: 60_000,
    claims: told.map((claim) => ({ ...claim, started: claim.ids.slice(0, 7) })),
    card: null,
  });
  for (const { epoch, ids } of told) {
    await store.note(owner, [{ id: ids[0]!, epoch, progress: '{"percent":50}', lines: [] }]);
    const endings: Ending[] = [
      { kind: 'complete', result: '1' },
      { kind: 'complete', result: '1' },
      { kind: 'release' },
      { kind: 'fail', error: '{"message":"m"}' },
    ];
    const ended = ids.filter(() => below(5) > 0);
    const settlements = ended.map((id) => ({ id, epoch, ending: endings[below(endings.length)]! }));
    const next = { ...request, owner, slots: 3, ahead: 3 };
    await store.settle({ owner, settlements, started: [], next: below(2) === 0 ? next : null });
  }
  await store.insert(jobs, { atomic: false });
}

describeOn('redis', 'a Redis that comes back as it was before', () => {
  it('keeps its books, whatever is said to it about what it has forgotten', { timeout }, async () => {
    const server = await privateRedis({ appendfsync: 'everysec' });
    const arena = { connect: () => redisStore({ url: server.url }), audit };
    const client = plainClient(server.url);
    async function audit(store: Store): Promise<void> {
      await auditKeys(client, store);
    }
    const stores = await Promise.all(Array.from({ length: 3 }, () => opened(arena)));
    for (let round = 0; round < rounds; round++) {
      await actFor(300, stores);
      const remembered: Remembered = { jobs: [], claims: [] };
      await takeSome(stores[0]!, remembered);
      const from = statSync(logOf(server)).size;
      await takeSome(stores[0]!, remembered);
      await actFor(200, stores);
      await takeSome(stores[0]!, remembered);
      await server.kill();
      cutLog(server, statSync(logOf(server)).size - from);
      await server.start();
      await goOn(stores[0]!, remembered);
      await auditInQuiet(arena, stores[1]!, new Ledger());
    }
  });
});
