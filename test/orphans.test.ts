// Orphans: pending work whose subject was confirmed to be gone. Whoever does not know keeps.
import { describe, expect, it } from 'vitest';
import { noFilter as anyJob } from '../src/core/store.js';
import { defineJob, type Presence } from '../src/index.js';
import { expectCode } from './support.js';
import { bench, type Bench, engines, forever, holding, jobType, stateOf, until, warnings } from './worker-support.js';

const everyMs = 60_000;

/** A list of trips outside, and a check of it. */
function trips(...there: string[]) {
  const present = new Set(there);
  const asked: (readonly string[])[] = [];
  return {
    present,
    asked,
    check: async (ids: readonly string[]): Promise<Presence[]> => {
      asked.push(ids);
      return ids.map((id) => (present.has(id) ? 'present' : 'absent'));
    },
  };
}

async function add(on: Bench, id: string, options: object = {}): Promise<string> {
  return (await on.queue.enqueue('dispatch', null, { subject: `trip:${id}`, ...options })).id;
}

/** Subjects by what their check answers; the others are present. */
function answering(answers: { [id: string]: Presence }) {
  return async (ids: readonly string[]): Promise<Presence[]> => ids.map((id) => answers[id] ?? 'present');
}

/** So many sweeps later. */
async function sweeps(on: Bench, n: number): Promise<void> {
  for (let i = 0; i < n; i++) await on.clock.advance(everyMs + 5_000);
}

describe.each(engines)('sweeps for orphans on %s', (engine) => {
  it('cancels pending and delayed jobs of a subject that two sweeps found absent', async () => {
    await using on = await bench(engine);
    const world = trips('1');
    on.queue.defineSubject('trip', { check: world.check, every: everyMs });
    const kept = await add(on, '1');
    const gone = [await add(on, '2'), await add(on, '2', { delay: '10h' })];
    const other = await on.queue.enqueue('dispatch', null, { subject: 'driver:2' });
    const plain = await on.queue.enqueue('dispatch', null);
    await sweeps(on, 1);
    expect(await Promise.all(gone.map((id) => stateOf(on.queue, id)))).toEqual(['pending', 'pending']);
    await sweeps(on, 1);
    for (const id of gone)
      expect(await on.queue.get(id)).toMatchObject({
        state: 'cancelled',
        error: { code: 'ORPHANED', message: 'The subject trip:2 is gone' },
      });
    for (const id of [kept, other.id, plain.id]) expect(await stateOf(on.queue, id)).toBe('pending');
    expect((await on.queue.stats()).leftBehind).toBe(0);
  });

  it('what is there again in between begins anew', async () => {
    await using on = await bench(engine);
    const world = trips();
    on.queue.defineSubject('trip', { check: world.check, every: everyMs });
    const id = await add(on, '1');
    await sweeps(on, 1);
    world.present.add('1');
    await sweeps(on, 1);
    world.present.delete('1');
    await sweeps(on, 1);
    expect(await stateOf(on.queue, id)).toBe('pending');
    await sweeps(on, 1);
    expect(await stateOf(on.queue, id)).toBe('cancelled');
  });

  it('leaves a running job alone', async () => {
    await using on = await bench(engine);
    const hold = holding('dispatch');
    await on.queue.work([hold.type]);
    on.queue.defineSubject('trip', { check: trips().check, every: everyMs });
    const id = await add(on, '1');
    await until(on.clock, () => hold.started.length === 1, 'the start');
    await sweeps(on, 3);
    expect(await on.queue.get(id)).toMatchObject({ state: 'processing', cancelRequested: null });
  });

  it('several processes do one sweep, and the second one goes on with what the first has found', async () => {
    await using on = await bench(engine);
    const other = await on.another();
    const [ours, theirs] = [trips(), trips()];
    on.queue.defineSubject('trip', { check: ours.check, every: everyMs });
    other.queue.defineSubject('trip', { check: theirs.check, every: everyMs });
    const id = await add(on, '1');
    await sweeps(on, 1);
    expect(ours.asked.length + theirs.asked.length).toBe(1);
    await on.queue.close({ grace: 0 });
    await sweeps(on, 1);
    expect(await stateOf(other.queue, id)).toBe('cancelled');
    expect(theirs.asked.length).toBeGreaterThan(0);
  });

  it('the ledger tells of it, and the cleanup of what is left', async () => {
    await using on = await bench(engine);
    on.queue.defineSubject('trip', { check: trips().check, every: everyMs });
    await add(on, '1');
    await add(on, '2');
    await sweeps(on, 2);
    await on.clock.advance('1s');
    const { items } = await on.queue.ledger();
    expect(items.map(({ removedBy }) => removedBy['orphan'] ?? 0).reduce((sum, n) => sum + n, 0)).toBe(2);
  });
});

describe.each(engines)('a subject that is over, on %s', (engine) => {
  const ids = Array.from({ length: 25 }, (_, n) => String(n));
  const some = (from: number, to: number, answer: Presence): { [id: string]: Presence } =>
    Object.fromEntries(ids.slice(from, to).map((id) => [id, answer]));

  it('loses its pending jobs in the first sweep, and the brake does not count it', async () => {
    await using on = await bench(engine);
    on.queue.defineSubject('trip', { check: answering(some(0, 10, 'over')), every: '1h' });
    await on.clock.settle();
    const jobs: string[] = [];
    for (const id of ids) jobs.push(await add(on, id, id === '0' ? { delay: '10h' } : {}));
    expect(await on.queue.sweepSubjects('trip')).toMatchObject({
      ...{ checked: 25, confirmed: 10, cancelled: 10, failures: 0, braked: false },
      orphans: { length: 10 },
    });
    const states = await Promise.all(jobs.map((id) => stateOf(on.queue, id)));
    expect(states).toEqual(ids.map((id) => (Number(id) < 10 ? 'cancelled' : 'pending')));
    expect((await on.queue.get(jobs[0]!))!.error).toEqual({ code: 'ORPHANED', message: 'The subject trip:0 is over' });
    expect((await on.queue.stats()).leftBehind).toBe(0);
  });

  it('does not add to those that are absent: few of them are condemned beside many that are over', async () => {
    await using on = await bench(engine);
    const answers = { ...some(0, 10, 'over'), ...some(10, 15, 'absent') };
    on.queue.defineSubject('trip', { check: answering(answers), every: '1h', confirm: 1 });
    await on.clock.settle();
    for (const id of ids) await add(on, id);
    expect(await on.queue.sweepSubjects('trip')).toMatchObject({ confirmed: 15, cancelled: 15, braked: false });
  });

  it('is ended also where the brake keeps those that are absent, and the log counts these alone', async () => {
    await using on = await bench(engine);
    const answers = { ...some(0, 10, 'over'), ...some(10, 18, 'absent') };
    on.queue.defineSubject('trip', { check: answering(answers), every: '1h', confirm: 1 });
    await on.clock.settle();
    for (const id of ids) await add(on, id);
    expect(await on.queue.sweepSubjects('trip')).toMatchObject({ confirmed: 18, cancelled: 10, braked: true });
    const { items } = await on.queue.find({ state: 'cancelled', limit: 50 });
    expect(items.map(({ subject }) => subject).sort()).toEqual(
      ids
        .slice(0, 10)
        .map((id) => `trip:${id}`)
        .sort(),
    );
    expect((await on.queue.stats()).leftBehind).toBe(8);
    const told = (start: string) => on.logs.find(({ message }) => message.startsWith(start))?.fields;
    expect(told('Sweep for orphans stopped')).toMatchObject({ confirmed: 8, checked: 25 });
    expect(told('Cancelled 10 orphaned jobs')).toMatchObject({ subjects: 10 });
    // One absent less, and the brake lets the others go.
    answers['10'] = 'present';
    expect(await on.queue.sweepSubjects('trip')).toMatchObject({ checked: 15, braked: false, cancelled: 7 });
  });

  it('is asked for once more: what has come back in between keeps its jobs, also one that was added since', async () => {
    await using on = await bench(engine);
    const jobs: string[] = [];
    let asked = 0;
    on.queue.defineSubject('trip', {
      check: async (ids) => {
        if (++asked === 1) return ids.map(() => 'over');
        jobs.push(await add(on, '1'));
        return ids.map(() => 'present');
      },
      every: '1h',
    });
    await on.clock.settle();
    jobs.push(await add(on, '1', { delay: '10h' }));
    expect(await on.queue.sweepSubjects('trip')).toMatchObject({ checked: 1, cancelled: 0, braked: false });
    expect(await Promise.all(jobs.map((id) => stateOf(on.queue, id)))).toEqual(['pending', 'pending']);
  });

  it('leaves a running job alone, and a job that starts with checkSubject ends', async () => {
    await using on = await bench(engine);
    const hold = holding('dispatch');
    const ran: string[] = [];
    await on.queue.work([hold.type, jobType('checked', ({ job }) => void ran.push(job.id), { checkSubject: true })]);
    const running = await add(on, '1');
    await until(on.clock, () => hold.started.length === 1, 'the start');
    on.queue.defineSubject('trip', { check: answering({ 1: 'over' }), every: everyMs });
    await sweeps(on, 1);
    expect(await on.queue.get(running)).toMatchObject({ state: 'processing', cancelRequested: null });
    const { id } = await on.queue.enqueue('checked', null, { subject: 'trip:1' });
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'cancelled', 'the end');
    expect((await on.queue.get(id))!.error).toEqual({ code: 'ORPHANED', message: 'The subject trip:1 is over' });
    expect(ran).toEqual([]);
  });
});

describe('a subject that is over', () => {
  it.each([
    ['an error', 1],
    ['absent', 0],
    ['unknown', 0],
  ])('and of which the last question learns %s keeps its jobs, and is left behind', async (last, failures) => {
    await using on = await bench('memory');
    let asked = 0;
    on.queue.defineSubject('trip', {
      check: async (ids) => {
        if (++asked === 1) return ids.map(() => 'over');
        if (last === 'an error') throw new Error('down');
        return ids.map(() => last as Presence);
      },
      every: '1h',
    });
    await on.clock.settle();
    const id = await add(on, '1');
    expect(await on.queue.sweepSubjects('trip')).toMatchObject({ confirmed: 1, cancelled: 0, failures });
    expect([asked, await stateOf(on.queue, id)]).toEqual([2, 'pending']);
    expect((await on.queue.stats()).leftBehind).toBe(1);
  });

  it('and was only half confirmed to be absent ends; one that is over and then absent begins anew', async () => {
    await using on = await bench('memory');
    const answers: { [id: string]: Presence } = { a: 'absent', b: 'unknown' };
    on.queue.defineSubject('trip', { check: answering(answers), every: '1h' });
    await on.clock.settle();
    const [a, b] = [await add(on, 'a'), await add(on, 'b')];
    await on.queue.sweepSubjects('trip');
    expect([await stateOf(on.queue, a), await stateOf(on.queue, b)]).toEqual(['pending', 'pending']);
    answers['a'] = 'over';
    await on.queue.sweepSubjects('trip');
    expect(await stateOf(on.queue, a)).toBe('cancelled');
    const again = await add(on, 'a');
    answers['a'] = 'absent';
    await on.queue.sweepSubjects('trip');
    expect(await stateOf(on.queue, again)).toBe('pending');
  });
});

describe('an outage of the lookup deletes nothing', () => {
  const outages: Record<string, (ids: readonly string[], signal: AbortSignal) => unknown> = {
    'an error': () => Promise.reject(new Error('connection refused')),
    'a throw': () => {
      throw new Error('connection refused');
    },
    'no answer': () => forever(),
    'a short answer': (ids) => Promise.resolve(ids.slice(1).map(() => 'absent')),
    'a long answer': (ids) => Promise.resolve(['absent', ...ids.map(() => 'absent')]),
    'an empty answer': () => Promise.resolve([]),
    'something else': () => Promise.resolve({ absent: true }),
    nothing: () => undefined,
    'words that are not ours': (ids) => Promise.resolve(ids.map(() => 'missing')),
    'a short answer of over': (ids) => Promise.resolve(ids.slice(1).map(() => 'over')),
    'a long answer of over': (ids) => Promise.resolve(['over', ...ids.map(() => 'over')]),
    'over in other letters': (ids) => Promise.resolve(ids.map(() => 'OVER')),
    unknown: (ids) => Promise.resolve(ids.map(() => 'unknown')),
  };
  it.each(Object.keys(outages))('%s', async (name) => {
    await using on = await bench('memory');
    on.queue.defineSubject('trip', { check: outages[name] as never, every: everyMs, confirm: 1 });
    const ids = [await add(on, '1'), await add(on, '2', { delay: '1h' })];
    await sweeps(on, 4);
    for (const id of ids) expect(await stateOf(on.queue, id)).toBe('pending');
    expect((await on.queue.stats()).leftBehind).toBe(0);
  });

  it('between the question and the deed: it is asked once more', async () => {
    await using on = await bench('memory');
    let asked = 0;
    const check = (ids: readonly string[]): Promise<Presence[]> =>
      ++asked % 2 === 1 ? Promise.resolve(ids.map(() => 'absent')) : Promise.reject(new Error('down'));
    on.queue.defineSubject('trip', { check, every: everyMs, confirm: 1 });
    const id = await add(on, '1');
    await sweeps(on, 3);
    expect(await stateOf(on.queue, id)).toBe('pending');
    expect((await on.queue.stats()).leftBehind).toBe(1);
    expect((await on.queue.ledger()).items.reduce((sum, { failures }) => sum + failures, 0)).toBeGreaterThan(0);
  });

  it('a check that hangs is told to stop, and holds up neither tending nor other kinds', async () => {
    await using on = await bench('memory');
    const signals: AbortSignal[] = [];
    on.queue.defineSubject('trip', {
      check: (_ids, signal) => {
        signals.push(signal);
        return forever();
      },
      every: everyMs,
    });
    on.queue.defineSubject('driver', { check: trips().check, every: everyMs, confirm: 1 });
    await add(on, '1');
    const driver = await on.queue.enqueue('dispatch', null, { subject: 'driver:1' });
    const expiring = await on.queue.enqueue('dispatch', null, { ttl: '62s' });
    await on.clock.advance(everyMs + 5_000);
    expect(await stateOf(on.queue, driver.id)).toBe('cancelled');
    expect(
      (await on.store.find({ filter: { ...anyJob, ids: [expiring.id] }, cursor: null, limit: 1 })).jobs[0]!.state,
    ).toBe('expired');
    expect(signals[0]!.aborted).toBe(false);
    await on.clock.advance('10s');
    expect(signals[0]!.aborted).toBe(true);
    expect(warnings(on.logs)).toContain('A check of subjects told nothing; they are kept');
  });
});

describe('the brake', () => {
  async function many(on: Bench, n: number): Promise<string[]> {
    const made = await on.queue.enqueueMany(
      Array.from({ length: n }, (_, i) => ({ type: 'dispatch', input: null, options: { subject: `trip:${i}` } })),
    );
    return made.map(({ id }) => id);
  }
  const cancelled = async (on: Bench): Promise<number> => (await on.queue.stats()).total.cancelled;

  it('stops a sweep that would condemn more than 30 % of at least 20, and says so', async () => {
    await using on = await bench('memory');
    const world = trips(...Array.from({ length: 20 }, (_, i) => String(i)).slice(0, 13));
    on.queue.defineSubject('trip', { check: world.check, every: everyMs });
    await many(on, 20);
    await sweeps(on, 4);
    expect(await cancelled(on)).toBe(0);
    expect((await on.queue.stats()).leftBehind).toBe(7);
    const told = on.logs.find(({ message }) => message.startsWith('Sweep for orphans stopped'));
    expect(told).toMatchObject({ level: 'error', fields: { kind: 'trip', confirmed: 7, checked: 20 } });
    world.present.add('13');
    await sweeps(on, 1);
    expect([await cancelled(on), (await on.queue.stats()).leftBehind]).toEqual([6, 0]);
  });

  it('weighs all that is absent, of which only some are remembered from sweep to sweep', async () => {
    await using on = await bench('memory', { cleanup: { maxStoredJobs: 10_000 } });
    on.queue.defineSubject('trip', { check: trips().check, every: everyMs });
    for (let batch = 0; batch < 4; batch++)
      await on.queue.enqueueMany(
        Array.from({ length: 1_000 }, (_, i) => ({
          type: 'dispatch',
          input: null,
          options: { subject: `trip:${batch * 1_000 + i}` },
        })),
      );
    await sweeps(on, 3);
    expect(await cancelled(on)).toBe(0);
  });

  it('a check that sorts its ids in place tells nothing', async () => {
    await using on = await bench('memory');
    const present = new Set(['b', 'a']);
    on.queue.defineSubject('trip', {
      check: async (ids) => [...(ids as string[]).sort()].map((id) => (present.has(id) ? 'present' : 'absent')),
      every: everyMs,
    });
    for (const id of ['c', 'b', 'a']) await add(on, id);
    await sweeps(on, 3);
    expect(await cancelled(on)).toBe(0);
    expect(on.logs.some(({ message }) => message.startsWith('A check of subjects told nothing'))).toBe(true);
  });

  it('does not mind few, and is as it is given', async () => {
    await using on = await bench('memory');
    on.queue.defineSubject('trip', { check: trips().check, every: everyMs });
    await many(on, 19);
    await sweeps(on, 2);
    expect(await cancelled(on)).toBe(19);
    on.queue.defineSubject('trip', { check: trips().check, every: everyMs, brake: { share: 0.5, atLeast: 2 } });
    await many(on, 2);
    await sweeps(on, 3);
    expect(await cancelled(on)).toBe(19);
  });

  it('many subjects are asked for in batches of at most a hundred', async () => {
    await using on = await bench('memory');
    const world = trips();
    on.queue.defineSubject('trip', { check: world.check, every: everyMs });
    await many(on, 950);
    await sweeps(on, 1);
    expect(world.asked.map(({ length }) => length)).toEqual([...Array<number>(9).fill(100), 50]);
    expect(new Set(world.asked.flat()).size).toBe(950);
  });
});

describe.each(engines)('checkSubject on %s', (engine) => {
  it('a job whose subject is gone ends at once, without having run', async () => {
    await using on = await bench(engine);
    const ran: string[] = [];
    const type = jobType('dispatch', ({ job }) => void ran.push(job.subject!), { checkSubject: true });
    const world = trips('1');
    on.queue.defineSubject('trip', { check: world.check, every: '1h' });
    const there = await add(on, '1');
    const gone = await add(on, '2');
    await on.queue.work([type]);
    await until(on.clock, async () => (await stateOf(on.queue, gone)) === 'cancelled', 'the orphan');
    await until(on.clock, async () => (await stateOf(on.queue, there)) === 'completed', 'the other');
    expect((await on.queue.get(gone))!.error).toEqual({ code: 'ORPHANED', message: 'The subject trip:2 is gone' });
    expect(ran).toEqual(['trip:1']);
    expect(world.asked.flat().sort()).toEqual(['1', '2']);
  });
});

describe('checkSubject', () => {
  it.each([
    ['a lookup that fails', () => Promise.reject(new Error('down'))],
    ['unknown', (ids: readonly string[]) => Promise.resolve(ids.map(() => 'unknown' as const))],
  ])('%s lets the job run', async (_name, check) => {
    await using on = await bench('memory');
    const ran: string[] = [];
    on.queue.defineSubject('trip', { check, every: '1h' });
    await on.queue.work([jobType('dispatch', ({ job }) => void ran.push(job.id), { checkSubject: true })]);
    const id = await add(on, '1');
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed', 'the run');
    expect(ran).toEqual([id]);
  });

  it('a kind that is not defined here lets the job run, and is told once', async () => {
    await using on = await bench('memory');
    await on.queue.work([jobType('dispatch', () => 1, { checkSubject: true })]);
    const ids = [await add(on, '1'), await add(on, '2')];
    for (const id of ids) await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed', 'the run');
    expect(warnings(on.logs).filter((message) => message.includes('not defined here'))).toHaveLength(1);
  });

  it('a job that is cancelled while its subject is asked for does not begin', async () => {
    await using on = await bench('memory');
    const ran: string[] = [];
    on.queue.defineSubject('trip', { check: () => forever(), every: '1h' });
    await on.queue.work([jobType('dispatch', ({ job }) => void ran.push(job.id), { checkSubject: true })]);
    const id = await add(on, '1');
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'processing', 'the claim');
    await on.queue.cancel(id, { reason: 'enough' });
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'cancelled', 'the end');
    expect(ran).toEqual([]);
  });

  it('needs a subject', async () => {
    await using on = await bench('memory');
    const type = defineJob('checked', { checkSubject: true, run: () => 1 });
    await expectCode('SUBJECT_REQUIRED', () => on.queue.enqueue(type, null));
    await on.queue.enqueue(type, null, { subject: 'trip:1' });
    await expectCode('UNKNOWN_OPTION', () => defineJob('checked', { checkSubject: 'yes' as never }));
  });
});

describe('what defineSubject refuses', () => {
  const check = trips().check;
  it.each([
    ['INVALID_NAME', '', { check, every: '1m' }],
    ['INVALID_NAME', 'trip:1', { check, every: '1m' }],
    ['UNKNOWN_OPTION', 'trip', null],
    ['UNKNOWN_OPTION', 'trip', { check, every: '1m', interval: 5 }],
    ['INVALID_INPUT', 'trip', { every: '1m' }],
    ['INVALID_DURATION', 'trip', { check }],
    ['INVALID_DURATION', 'trip', { check, every: 0 }],
    ['INVALID_LIMIT', 'trip', { check, every: '1m', confirm: 0 }],
    ['INVALID_LIMIT', 'trip', { check, every: '1m', confirm: 1.5 }],
    ['UNKNOWN_OPTION', 'trip', { check, every: '1m', brake: null }],
    ['INVALID_LIMIT', 'trip', { check, every: '1m', brake: { share: 2, atLeast: 20 } }],
    ['INVALID_LIMIT', 'trip', { check, every: '1m', brake: { share: 0.3, atLeast: 0 } }],
    ['INVALID_LIMIT', 'trip', { check, every: '1m', brake: { share: 0.3 } }],
  ] as const)('%s: %s %o', async (code, kind, rule) => {
    await using on = await bench('memory');
    await expectCode(code, () => on.queue.defineSubject(kind, rule as never));
  });

  it('says which part of the brake is missing, and how short every may be', async () => {
    await using on = await bench('memory');
    const refusal = async (code: 'INVALID_LIMIT' | 'INVALID_DURATION', rule: object) =>
      (await expectCode(code, () => on.queue.defineSubject('trip', { check, ...rule } as never))).message;
    const noneAtLeast = await refusal('INVALID_LIMIT', { every: '1m', brake: { share: 0.5 } });
    expect(noneAtLeast).toContain('brake has share 0.5 and atLeast undefined; give both');
    expect(await refusal('INVALID_DURATION', { every: 'often' })).toContain('from 1s to 3650d');
  });
});
