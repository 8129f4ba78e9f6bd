// A subject that can be stored can be found, cancelled, held and removed: wildcards of other languages are plain characters.
import { expect, it } from 'vitest';
import type { JobEvent, Queue } from '../src/index.js';
import { eachStore, expectCode } from './support.js';

/** Each would match `trip:42` in some language of patterns: globs, LIKE, Lua, regular expressions, JSON, SQL. */
const odd = [
  'trip:*',
  'trip:%',
  'trip:_2',
  'trip:4?',
  'trip:[0-9]*',
  'trip:%d+',
  'trip:.*',
  'trip:\\d+',
  "trip:'--",
  'trip:"',
];
const other = 'trip:42';

async function idsOf(queue: Queue, subject: string): Promise<string[]> {
  return (await queue.find({ subject })).items.map(({ id }) => id);
}

eachStore((on) => {
  it.each(odd)('%s is one subject: every verb that takes a filter means it alone', async (subject) => {
    const { queue } = await on.still();
    const [a, b] = await queue.enqueueMany([
      { type: 'mail', input: 1, options: { subject } },
      { type: 'mail', input: 2, options: { subject: other } },
    ]);
    expect(await idsOf(queue, subject)).toEqual([a.id]);
    expect(await idsOf(queue, other)).toEqual([b.id]);
    expect(await queue.hold({ subject }, 'look at it')).toBe(1);
    expect((await queue.remove({ subject })).items).toEqual([{ id: a.id, outcome: 'held' }]);
    expect(await queue.release({ subject })).toBe(1);
    expect((await queue.reschedule({ subject }, { delay: '1h' })).items).toEqual([{ id: a.id, outcome: 'moved' }]);
    expect((await queue.cancel({ subject })).items).toEqual([{ id: a.id, outcome: 'cancelled' }]);
    const { items } = await queue.retry({ subject, state: 'cancelled' });
    expect(items).toEqual([{ id: a.id, outcome: 'retried', newId: expect.any(String) as string }]);
    expect((await queue.remove({ subject })).matched).toBe(2);
    expect(await idsOf(queue, subject)).toEqual([]);
    expect(await queue.get(b.id)).toMatchObject({ state: 'pending' });
  });

  it.each(odd)('%s is ended and lifted alone, and its events are told alone', async (subject) => {
    const { queue } = await on.still();
    const told: JobEvent[] = [];
    const stop = new AbortController();
    const following = (async () => {
      for await (const event of queue.events({ subject, signal: stop.signal }))
        if (told.push(event) === 2) stop.abort();
    })();
    const mine = await queue.enqueue('mail', 1, { subject });
    const others = await queue.enqueue('mail', 2, { subject: other });
    expect(await queue.endSubject(subject, 'over')).toMatchObject({ subject, cancelled: 1 });
    await expectCode('SUBJECT_ENDED', () => queue.enqueue('mail', 3, { subject }));
    await queue.enqueue('mail', 4, { subject: other });
    await following;
    expect(told.map(({ name, id }) => [name, id])).toEqual([
      ['created', mine.id],
      ['cancelled', mine.id],
    ]);
    expect(await queue.get(others.id)).toMatchObject({ state: 'pending' });
    expect(await queue.liftSubject(other)).toBe(false);
    expect(await queue.liftSubject(subject)).toBe(true);
    await queue.enqueue('mail', 5, { subject });
  });

  it('a check is asked for the ids as they are', async () => {
    const { queue } = await on.still();
    const asked: string[] = [];
    queue.defineSubject('trip', {
      every: '1m',
      confirm: 1,
      async check(ids) {
        asked.push(...ids);
        return ids.map((id) => (id === '*' ? 'absent' : 'present'));
      },
    });
    const gone = await queue.enqueue('mail', 1, { subject: 'trip:*' });
    const there = await queue.enqueue('mail', 2, { subject: other });
    const swept = await queue.sweepSubjects('trip');
    expect(swept).toMatchObject({ checked: 2, cancelled: 1, orphans: [{ id: gone.id, subject: 'trip:*' }] });
    expect([...new Set(asked)].sort()).toEqual(['*', '42']);
    expect(await queue.get(gone.id)).toMatchObject({ state: 'cancelled', error: { code: 'ORPHANED' } });
    expect(await queue.get(there.id)).toMatchObject({ state: 'pending' });
  });
});
