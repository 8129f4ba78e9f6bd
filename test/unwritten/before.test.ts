// What is looked at before something is destroyed without a write. The faults are put in, and time is made by hand.
import { expect, onTestFinished, test } from 'vitest';
import type { OverduePage, Store, StoreFactory } from '../../src/core/store.js';
import { LastoutError, memoryStore, open } from '../../src/index.js';
import { fakeClock } from '../../src/testing/index.js';
import { provider } from '../leases-support.js';
import { closeUnder } from '../support.js';

interface Fault {
  refused: boolean;
  check: Store['check'];
  /** What it says is overdue, instead of the truth. */
  overdue?: (ids: readonly string[] | null, truth: OverduePage) => OverduePage;
}
const blocked: Store['check'] = async () => [{ code: 'READ_ONLY', message: 'read-only', blocks: true }];

/** A store in memory that refuses writes once it is told to. */
function refusing(fault: Fault): StoreFactory {
  const inner = memoryStore();
  return {
    engine: inner.engine,
    async open(context) {
      const store = await inner.open(context);
      const refuse = (): Promise<never> => Promise.reject(new LastoutError('STORE_READONLY', 'read-only'));
      return {
        ...store,
        claim: (request) => (fault.refused ? refuse() : store.claim(request)),
        sweep: (request) => (fault.refused ? refuse() : store.sweep(request)),
        sweepInTerm: (term, request) => (fault.refused ? refuse() : store.sweepInTerm(term, request)),
        move: (request) => (fault.refused ? refuse() : store.move(request)),
        check: () => (fault.refused ? fault.check() : store.check()),
        async readOverdue(request) {
          const page = await store.readOverdue(request);
          return fault.overdue ? fault.overdue(request.ids, page) : page;
        },
      };
    },
  };
}

async function leased(fault: Fault) {
  const clock = fakeClock();
  const room = provider('room', () => clock.now());
  const queue = await open(refusing(fault), { resources: [room.resource], clock, logger: quiet });
  onTestFinished(() => closeUnder(clock, queue));
  const brief = await queue.lease(room.resource, { size: 1 }, { ttl: '1s' });
  fault.refused = true;
  return { clock, room, queue, brief };
}
const quiet = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

test('writes that are refused for longer than five seconds: it goes, once, and its record when they return', async () => {
  const fault: Fault = { refused: false, check: blocked };
  const { clock, room, queue, brief } = await leased(fault);
  await clock.advance('1s');
  await clock.advance('5s');
  expect(room.names()).toHaveLength(1); // it may pass
  await clock.advance('10s');
  expect(room.names()).toEqual([]);
  await clock.advance('10m');
  expect(room.destroyed).toHaveLength(1);
  expect((await queue.health()).warnings.map(({ code }) => code)).toContain('LEASES_ENDED_UNWRITTEN');
  fault.refused = false;
  await clock.advance('10s');
  expect(await queue.get(brief.id)).toMatchObject({ state: 'completed' });
  expect((await queue.health()).warnings).toEqual([]);
  expect((await queue.stats()).leftBehind).toBe(0);
});

test('a lease that is held is not touched, however long writes are refused', async () => {
  const fault: Fault = { refused: false, check: blocked };
  const { clock, room, queue } = await leased(fault);
  fault.refused = false;
  const held = await queue.lease(room.resource, { size: 2 }, { ttl: '1h' });
  fault.refused = true;
  await clock.advance('59m');
  expect(room.names()).toEqual([held.name]);
  await clock.advance('2m');
  expect(room.names()).toEqual([]);
});

test('each look must find them refused: one that does not starts anew', async () => {
  let looks = 0;
  const fault: Fault = { refused: false, check: async () => (++looks % 2 === 0 ? [] : blocked()) };
  const { clock, room } = await leased(fault);
  await clock.advance('2m');
  expect(looks).toBeGreaterThan(10);
  expect(room.names()).toHaveLength(1);
});

test('writes that only fail, as behind a lock that lasts, are not refused', async () => {
  const check = () => Promise.reject(new LastoutError('STORE_UNAVAILABLE', 'stayed locked'));
  const { clock, room } = await leased({ refused: false, check });
  await clock.advance('2m');
  expect(room.names()).toHaveLength(1);
});

test('it is read again right before: one that is no longer over stays', async () => {
  let asked = 0;
  const overdue: Fault['overdue'] = (ids, truth) => {
    if (ids === null) return truth;
    asked += 1;
    return { ...truth, jobs: [] };
  };
  const { clock, room } = await leased({ refused: false, check: blocked, overdue });
  await clock.advance('1m');
  expect(asked).toBeGreaterThan(1);
  expect(room.names()).toHaveLength(1);
});

test('a doubt that comes only then keeps it', async () => {
  let asked = 0;
  const overdue: Fault['overdue'] = (ids, truth) => {
    if (ids !== null) asked += 1;
    return { ...truth, doubt: ids === null ? null : 'it is a replica' };
  };
  const { clock, room } = await leased({ refused: false, check: blocked, overdue });
  await clock.advance('1m');
  expect(asked).toBeGreaterThan(1);
  expect(room.names()).toHaveLength(1);
});

test('while the server is in doubt everything is kept and shown, and goes when the doubt does', async () => {
  let doubt: string | null = 'it is a replica';
  const fault: Fault = { refused: false, check: blocked, overdue: (_ids, truth) => ({ ...truth, doubt }) };
  const { clock, room, queue, brief } = await leased(fault);
  await clock.advance('1m');
  expect(room.names()).toHaveLength(1);
  const kept = () => queue.alerts().then((all) => all.filter(({ rule }) => rule === 'leasesNeedAttention'));
  expect(await kept()).toMatchObject([{ state: 'firing', evidence: [brief.id] }]);
  const { warnings } = await queue.health();
  expect(warnings.find(({ code }) => code === 'LEASES_KEPT')?.message).toContain('it is a replica');
  doubt = null;
  await clock.advance('10s');
  expect(room.names()).toEqual([]);
  expect(await kept()).toMatchObject([{ state: 'cleared' }]);
});

test('what cannot be destroyed is tried again after 1, 4 and 9 seconds, and then every quarter of an hour', async () => {
  const { clock, room } = await leased({ refused: false, check: blocked });
  room.before = async (step) => (step === 'destroy' ? Promise.reject(new Error('away')) : undefined);
  await clock.advance('1m');
  expect(room.count('destroy')).toBe(4);
  await clock.advance('13m');
  expect(room.count('destroy')).toBe(4);
  room.before = async () => undefined;
  await clock.advance('3m');
  expect(room.destroyed).toMatchObject([{ attempt: 5 }]);
});

test('what another store has named is let be', async () => {
  const foreign = 'lastout.room.aaaaaaaaaaaaaaaaaaaa';
  const overdue: Fault['overdue'] = (_ids, truth) => ({
    ...truth,
    jobs: truth.jobs.map((job) => ({ ...job, key: `${foreign}.${job.id}` })),
  });
  const { clock, room } = await leased({ refused: false, check: blocked, overdue });
  await clock.advance('1m');
  expect(room.count('destroy')).toBe(0);
});
