// Orphans on demand: the same sweep, not waited for.
import { describe, expect, it } from 'vitest';
import type { Presence } from '../src/index.js';
import { expectCode, gate } from './support.js';
import { bench, type Bench, engines, stateOf } from './worker-support.js';

const rule = (check: (ids: readonly string[]) => Promise<Presence[]>) =>
  ({ check, every: '1h', confirm: 1, brake: { share: 1, atLeast: 1 } }) as const;

const absent = async (ids: readonly string[]): Promise<Presence[]> => ids.map(() => 'absent');

const add = async (on: Bench, id: string): Promise<string> =>
  (await on.queue.enqueue('dispatch', null, { subject: `trip:${id}` })).id;

describe.each(engines)('sweepSubjects on %s', (engine) => {
  it('looks now, tells the orphans, and puts the next sweep off by an interval', async () => {
    await using on = await bench(engine);
    const asked: (readonly string[])[] = [];
    on.queue.defineSubject(
      'trip',
      rule(async (ids) => (asked.push(ids), absent(ids))),
    );
    await on.clock.advance('30m');
    const ids = [await add(on, '1'), await add(on, '1'), await add(on, '2')];
    const swept = await on.queue.sweepSubjects('trip');
    expect(swept).toMatchObject({ checked: 2, confirmed: 2, cancelled: 3, failures: 0, braked: false });
    expect(new Map(swept!.orphans.map(({ id, subject }) => [id, subject]))).toEqual(
      new Map([
        [ids[0], 'trip:1'],
        [ids[1], 'trip:1'],
        [ids[2], 'trip:2'],
      ]),
    );
    for (const id of ids) expect(await stateOf(on.queue, id)).toBe('cancelled');
    const late = await add(on, '3');
    await on.clock.advance('59m');
    expect(await stateOf(on.queue, late)).toBe('pending');
    await on.clock.advance('2m');
    expect(await stateOf(on.queue, late)).toBe('cancelled');
  });

  it('waits for a sweep of this process, and leaves it to another process that is at it', async () => {
    await using on = await bench(engine);
    const other = await on.another();
    const door = gate();
    let [looking, most] = [0, 0];
    const slow = rule(async (ids) => {
      most = Math.max(most, ++looking);
      await door.opened;
      looking -= 1;
      return ids.map(() => 'present' as const);
    });
    on.queue.defineSubject('trip', slow);
    other.queue.defineSubject('trip', slow);
    await add(on, '1');
    await on.clock.settle();
    const [first, second] = [on.queue.sweepSubjects('trip'), on.queue.sweepSubjects('trip')];
    await on.clock.settle();
    expect([looking, await other.queue.sweepSubjects('trip')]).toEqual([1, null]);
    door.open();
    expect(await Promise.all([first, second])).toMatchObject([{ checked: 1 }, { checked: 1 }]);
    expect(most).toBe(1);
  });
});

describe('sweepSubjects', () => {
  it('a check that fails is told, and cancels nothing', async () => {
    await using on = await bench('memory');
    on.queue.defineSubject(
      'trip',
      rule(() => Promise.reject(new Error('connection refused'))),
    );
    const id = await add(on, '1');
    expect(await on.queue.sweepSubjects('trip')).toMatchObject({ checked: 1, cancelled: 0, failures: 1, orphans: [] });
    expect(await stateOf(on.queue, id)).toBe('pending');
  });

  it('a word that is none of the four is a failure, is told once, and keeps; the other answers count', async () => {
    await using on = await bench('memory');
    const check = async (ids: readonly string[]) => ids.map((id) => (id === '3' ? 'absent' : 'yes')) as Presence[];
    on.queue.defineSubject('trip', rule(check));
    for (const trip of ['1', '2', '3']) await add(on, trip);
    expect(await on.queue.sweepSubjects('trip')).toMatchObject({ checked: 3, confirmed: 1, cancelled: 1, failures: 1 });
    const warnings = on.logs.filter(({ level }) => level === 'warn');
    expect(warnings).toMatchObject([{ fields: { kind: 'trip', ids: 2, error: expect.stringContaining('"yes"') } }]);
  });

  it('what failed is told until a sweep goes well, however often the cleanup goes well meanwhile', async () => {
    await using on = await bench('memory');
    let isAway = true;
    const check = async (ids: readonly string[]): Promise<Presence[]> =>
      isAway ? Promise.reject(new Error('connection refused')) : ids.map(() => 'present' as const);
    on.queue.defineSubject('trip', rule(check));
    await add(on, '1');
    await on.queue.sweepSubjects('trip');
    for (let n = 0; n < 3; n++) await on.queue.sweep();
    const failing = async () => (await on.queue.alerts()).filter((alert) => alert.rule === 'cleanupFailing');
    expect(await failing()).toMatchObject([{ state: 'firing' }]);
    isAway = false;
    await on.queue.sweepSubjects('trip');
    await on.queue.sweep();
    expect(await failing()).toMatchObject([{ state: 'cleared' }]);
  });

  it('a kind that is not defined here is refused', async () => {
    await using on = await bench('memory');
    await expectCode('INVALID_INPUT', () => on.queue.sweepSubjects('trip'));
  });
});
