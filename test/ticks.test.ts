// When a schedule ticks: the pure part, in time zones whose clocks are put forward and back.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Missed, nextTick, planTicks, readWhen, type Rhythm } from '../src/queue/ticks.js';

const cronIn = (timeZone: string, cron: string): Rhythm => ({ cron, timeZone });
const at = (text: string): number => Date.parse(text);
const iso = (instant: number): string => new Date(instant).toISOString().replace(/:00\.000Z$/, 'Z');

/** The first ticks after an instant, one from the other. */
function chain(rhythm: Rhythm, after: number, upTo: number): number[] {
  const ticks: number[] = [];
  for (let next = nextTick(rhythm, after); next !== null && next <= upTo; next = nextTick(rhythm, next))
    ticks.push(next);
  return ticks;
}

describe('ticks where clocks are put forward', () => {
  it.each([
    // Berlin: 02:00 becomes 03:00 on 31 March 2030, at 01:00 UTC.
    ['Europe/Berlin', '30 2 * * *', '2030-03-30T12:00Z', ['2030-03-31T01:00Z', '2030-04-01T00:30Z']],
    ['Europe/Berlin', '0 2 * * *', '2030-03-30T12:00Z', ['2030-03-31T01:00Z', '2030-04-01T00:00Z']],
    ['Europe/Berlin', '0,15,30 2 * * *', '2030-03-30T12:00Z', ['2030-03-31T01:00Z', '2030-04-01T00:00Z']],
    [
      'Europe/Berlin',
      '30 1-4 * * *',
      '2030-03-30T12:00Z',
      ['2030-03-31T00:30Z', '2030-03-31T01:00Z', '2030-03-31T01:30Z'],
    ],
    ['Europe/Berlin', '30 3 * * *', '2030-03-30T12:00Z', ['2030-03-31T01:30Z', '2030-04-01T01:30Z']],
    [
      'Europe/Berlin',
      '30 * * * *',
      '2030-03-31T00:00Z',
      ['2030-03-31T00:30Z', '2030-03-31T01:00Z', '2030-03-31T01:30Z'],
    ],
    [
      'Europe/Berlin',
      '*/20 * * * *',
      '2030-03-31T00:30Z',
      ['2030-03-31T00:40Z', '2030-03-31T01:00Z', '2030-03-31T01:20Z'],
    ],
    // New York: 02:00 becomes 03:00 on 10 March 2030, at 07:00 UTC.
    ['America/New_York', '30 2 * * *', '2030-03-09T12:00Z', ['2030-03-10T07:00Z', '2030-03-11T06:30Z']],
    ['America/New_York', '30 1 * * *', '2030-03-09T12:00Z', ['2030-03-10T06:30Z', '2030-03-11T05:30Z']],
    // Lord Howe: 02:00 becomes 02:30 on 6 October 2030, at 15:30 UTC of the day before.
    ['Australia/Lord_Howe', '15 2 * * *', '2030-10-05T00:00Z', ['2030-10-05T15:30Z', '2030-10-06T15:15Z']],
    ['Australia/Lord_Howe', '30 2 * * *', '2030-10-05T00:00Z', ['2030-10-05T15:30Z', '2030-10-06T15:30Z']],
    ['Australia/Lord_Howe', '0,15,30,45 2 * * *', '2030-10-05T00:00Z', ['2030-10-05T15:30Z', '2030-10-05T15:45Z']],
    // Havana: midnight becomes 01:00 on 10 March 2030.
    ['America/Havana', '0 0 * * *', '2030-03-09T12:00Z', ['2030-03-10T05:00Z', '2030-03-11T04:00Z']],
  ])('%s "%s": a time that is left out ticks once, right after the gap', (zone, cron, after, expected) => {
    const ticks = chain(cronIn(zone, cron), at(after), at(after) + 3 * 86_400_000);
    expect(ticks.slice(0, expected.length).map(iso)).toEqual(expected);
  });
});

describe('ticks where clocks are put back', () => {
  it.each([
    // Berlin: 03:00 becomes 02:00 on 27 October 2030, at 01:00 UTC.
    ['Europe/Berlin', '30 2 * * *', '2030-10-26T12:00Z', ['2030-10-27T00:30Z', '2030-10-28T01:30Z']],
    [
      'Europe/Berlin',
      '0,30 2 * * *',
      '2030-10-26T12:00Z',
      ['2030-10-27T00:00Z', '2030-10-27T00:30Z', '2030-10-28T01:00Z'],
    ],
    [
      'Europe/Berlin',
      '0 */2 * * *',
      '2030-10-26T23:00Z',
      ['2030-10-27T00:00Z', '2030-10-27T03:00Z', '2030-10-27T05:00Z'],
    ],
    ['Europe/Berlin', '0 3 * * *', '2030-10-26T12:00Z', ['2030-10-27T02:00Z', '2030-10-28T02:00Z']],
    // New York: 02:00 becomes 01:00 on 3 November 2030, at 06:00 UTC.
    ['America/New_York', '30 1 * * *', '2030-11-02T12:00Z', ['2030-11-03T05:30Z', '2030-11-04T06:30Z']],
    ['America/New_York', '0 2 * * *', '2030-11-02T12:00Z', ['2030-11-03T07:00Z', '2030-11-04T07:00Z']],
    // Lord Howe: 02:00 becomes 01:30 on 7 April 2030, at 15:00 UTC of the day before.
    ['Australia/Lord_Howe', '45 1 * * *', '2030-04-06T00:00Z', ['2030-04-06T14:45Z', '2030-04-07T15:15Z']],
    [
      'Australia/Lord_Howe',
      '0,30 1 * * *',
      '2030-04-06T12:00Z',
      ['2030-04-06T14:00Z', '2030-04-06T14:30Z', '2030-04-07T14:30Z'],
    ],
  ])('%s "%s": a time that is shown twice ticks once, the first time', (zone, cron, after, expected) => {
    const ticks = chain(cronIn(zone, cron), at(after), at(after) + 3 * 86_400_000);
    expect(ticks.slice(0, expected.length).map(iso)).toEqual(expected);
  });

  it('a pattern for every hour goes on through both showings', () => {
    const ticks = chain(cronIn('Europe/Berlin', '*/30 * * * *'), at('2030-10-26T23:45Z'), at('2030-10-27T02:30Z'));
    expect(ticks.map(iso)).toEqual([
      '2030-10-27T00:00Z', '2030-10-27T00:30Z', '2030-10-27T01:00Z',
      '2030-10-27T01:30Z', '2030-10-27T02:00Z', '2030-10-27T02:30Z',
    ]); // biome-ignore format: one list
    const hourly = chain(cronIn('Australia/Lord_Howe', '45 * * * *'), at('2030-04-06T13:50Z'), at('2030-04-06T17:00Z'));
    expect(hourly.map(iso)).toEqual(['2030-04-06T14:45Z', '2030-04-06T15:15Z', '2030-04-06T16:15Z']);
  });
});

/** What the clocks of a zone show, taken from the platform in another way than the library takes it. */
function wallsShown(zone: string, from: number, to: number): { instant: number; wall: number }[] {
  const format = new Intl.DateTimeFormat('en-GB', {
    timeZone: zone, hourCycle: 'h23', year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit',
  }); // biome-ignore format: one list
  const shown: { instant: number; wall: number }[] = [];
  for (let instant = from; instant <= to; instant += 60_000) {
    const parts = Object.fromEntries(format.formatToParts(instant).map(({ type, value }) => [type, value]));
    shown.push({ instant, wall: at(`${parts.year}-${parts.month}-${parts.day}T${parts.hour}:${parts.minute}Z`) });
  }
  return shown;
}

/** Ticks by walking through every minute: the rule said in the plainest way. */
function walkedTicks(
  shown: ReturnType<typeof wallsShown>,
  hours: readonly number[],
  minutes: readonly number[],
): number[] {
  const matches = (wall: number): boolean =>
    hours.includes(new Date(wall).getUTCHours()) && minutes.includes(new Date(wall).getUTCMinutes());
  const ticks = new Set<number>();
  let latest = shown[0]!.wall - 60_000;
  for (const { instant, wall } of shown) {
    for (let leftOut = latest + 60_000; leftOut < wall; leftOut += 60_000) if (matches(leftOut)) ticks.add(instant);
    const again = wall <= latest;
    if (matches(wall) && (!again || hours.length === 24)) ticks.add(instant);
    latest = Math.max(latest, wall);
  }
  return [...ticks].sort((a, b) => a - b);
}

/** Thirty hours around a change of clocks. */
const changes = [
  ['Europe/Berlin', '2030-03-31T01:00Z'], ['Europe/Berlin', '2030-10-27T01:00Z'],
  ['America/New_York', '2030-03-10T07:00Z'], ['America/New_York', '2030-11-03T06:00Z'],
  ['Australia/Lord_Howe', '2030-10-05T15:30Z'], ['Australia/Lord_Howe', '2030-04-06T15:00Z'],
  ['America/Havana', '2030-03-10T05:00Z'], ['America/Havana', '2030-11-03T05:00Z'],
  ['Asia/Kathmandu', '2030-06-01T00:00Z'], ['UTC', '2030-06-01T00:00Z'],
].map(([zone, when]) => {
  const from = at(when!) - 15 * 3_600_000;
  const to = at(when!) + 15 * 3_600_000;
  return { zone: zone!, from, to, shown: wallsShown(zone!, from, to) };
}); // biome-ignore format: one list

const minuteSets = fc.uniqueArray(fc.nat(59), { minLength: 1, maxLength: 6 });
const hourSets = fc.oneof(
  fc.uniqueArray(fc.nat(23), { minLength: 1, maxLength: 12 }),
  fc.constant(Array.from({ length: 24 }, (_, hour) => hour)),
);

describe('ticks in general', () => {
  it('follow the clocks of the zone, minute by minute', () => {
    fc.assert(
      fc.property(fc.constantFrom(...changes), minuteSets, hourSets, ({ zone, from, to, shown }, minutes, hours) => {
        const cron = `${minutes.join(',')} ${hours.length === 24 ? '*' : hours.join(',')} * * *`;
        const walked = walkedTicks(shown, hours, minutes).filter((tick) => tick > from);
        expect(chain(cronIn(zone, cron), from, to).map(iso)).toEqual(walked.map(iso));
      }),
      { numRuns: 120 },
    );
  });

  it('are the same counted back from any instant as counted on', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...changes), minuteSets, hourSets, fc.double({ min: 0, max: 1, noNaN: true }),
        ({ zone, from, to }, minutes, hours, share) => {
          const rhythm = cronIn(zone, `${minutes.join(',')} ${hours.length === 24 ? '*' : hours.join(',')} * * *`);
          const now = from + Math.floor((to - from) * share);
          const expected = chain(rhythm, from, now);
          const { fire, seen, next } = planTicks(rhythm, 'all', from, now);
          expect(fire.map(iso)).toEqual(expected.slice(-100).map(iso));
          expect(seen).toBe(expected.at(-1) ?? from);
          expect(next).toBe(nextTick(rhythm, seen));
          expect(next).toBeGreaterThan(now);
        },
      ), // biome-ignore format: one list
      { numRuns: 120 },
    );
  });

  const rhythms = fc.oneof(
    fc.integer({ min: 1_000, max: 5_000_000 }).map((everyMs): Rhythm => ({ everyMs })),
    fc.constantFrom(
      cronIn('Europe/Berlin', '*/20 1-3 * * *'), cronIn('UTC', '*/7 * * * *'),
      cronIn('Australia/Lord_Howe', '*/10 * * * *'), cronIn('America/New_York', '*/30 * * * * *'),
    ), // biome-ignore format: one list
  );

  it('are dealt with once each, in order, however the clocks of those who handle them differ', () => {
    const start = at('2030-10-26T22:10:00.123Z');
    const steps = fc.array(
      fc.tuple(fc.integer({ min: 0, max: 4_000_000 }), fc.integer({ min: -600_000, max: 600_000 })),
      {
        maxLength: 30,
      },
    );
    fc.assert(
      fc.property(rhythms, fc.constantFrom<Missed>('skip', 'once', 'all'), steps, (rhythm, missed, moves) => {
        let seen = start;
        let due = start;
        let now = start;
        const fired: number[] = [];
        for (const [passed, skew] of moves) {
          now += passed;
          // As a store does it: nobody is given the schedule before it is due by his clock.
          if (now + skew < due) continue;
          const plan = planTicks(rhythm, missed, seen, now + skew);
          fired.push(...plan.fire);
          expect(plan.seen).toBeGreaterThanOrEqual(seen);
          expect(plan.next).toBeGreaterThan(now + skew);
          expect(plan.fire.length).toBeLessThanOrEqual(missed === 'all' ? 100 : 1);
          ({ seen } = plan);
          due = plan.next!;
        }
        expect(fired).toEqual([...new Set(fired)].sort((a, b) => a - b));
        const all = new Set(chain(rhythm, start, seen));
        for (const tick of fired) expect(all.has(tick)).toBe(true);
      }),
      { numRuns: 300 },
    );
  });

  it('keep their phase whatever was missed', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1_000, max: 100_000 }), fc.nat(10_000_000), (everyMs, late) => {
        const start = at('2030-01-01T00:00Z');
        const { seen, next } = planTicks({ everyMs }, 'once', start, start + late);
        expect((seen - start) % everyMs).toBe(0);
        expect(next! - seen).toBe(everyMs);
        expect(next).toBeGreaterThan(start + late);
      }),
    );
  });
});

describe('missed ticks', () => {
  const every: Rhythm = { everyMs: 60_000 };
  const start = at('2030-01-01T00:00Z');
  const minute = (n: number): number => start + n * 60_000;

  it('skip: a tick within a minute is on time, a later one is left out', () => {
    expect(planTicks(every, 'skip', start, minute(1) + 59_999).fire).toEqual([minute(1)]);
    const hourly: Rhythm = { everyMs: 3_600_000 };
    expect(planTicks(hourly, 'skip', start, minute(61)).fire).toEqual([minute(60)]);
    expect(planTicks(hourly, 'skip', start, minute(61) + 1)).toEqual({
      fire: [],
      seen: minute(60),
      next: minute(120),
    });
  });

  it('a tick that was seen up to an hour ahead is dealt with; beyond that the clock was wrong, and it goes on from now', () => {
    expect(planTicks(every, 'all', minute(60), start)).toEqual({ fire: [], seen: minute(60), next: minute(61) });
    expect(planTicks(every, 'all', minute(60) + 1, start)).toEqual({ fire: [], seen: start, next: minute(1) });
    expect(planTicks(cronIn('UTC', '0 3 * * *'), 'once', at('2031-01-01T00:00Z'), start).next).toBe(minute(180));
  });

  it('skip: of several due ones, only the newest can be on time', () => {
    expect(planTicks(every, 'skip', start, minute(7) + 10).fire).toEqual([minute(7)]);
  });

  it('once: the newest fires, on time or not', () => {
    expect(planTicks(every, 'once', start, minute(7) + 10)).toEqual({
      fire: [minute(7)],
      seen: minute(7),
      next: minute(8),
    });
    expect(planTicks({ everyMs: 3_600_000 }, 'once', start, minute(100)).fire).toEqual([minute(60)]);
  });

  it('all: each fires, and of more than a hundred the newest hundred', () => {
    expect(planTicks(every, 'all', start, minute(3)).fire).toEqual([minute(1), minute(2), minute(3)]);
    const many = planTicks(every, 'all', start, minute(1_000));
    expect(many.fire).toHaveLength(100);
    expect([many.fire[0], many.fire.at(-1), many.seen]).toEqual([minute(901), minute(1_000), minute(1_000)]);
  });

  it('nothing is due: nothing fires, and nothing is forgotten', () => {
    expect(planTicks(every, 'all', start, start + 59_999)).toEqual({ fire: [], seen: start, next: minute(1) });
    expect(planTicks(every, 'all', minute(5), minute(2))).toEqual({ fire: [], seen: minute(5), next: minute(6) });
  });

  it('a year of missed seconds is planned without counting them', () => {
    const plan = planTicks(cronIn('Europe/Berlin', '* * * * * *'), 'all', start, minute(60 * 24 * 365));
    expect(plan.fire).toHaveLength(100);
    expect(plan.fire.at(-1)).toBe(minute(60 * 24 * 365));
  });

  it('a gap full of ticks counts as one of the hundred', () => {
    const rhythm = cronIn('Europe/Berlin', '* 1-2 * * *');
    const { fire } = planTicks(rhythm, 'all', at('2030-03-29T12:00Z'), at('2030-03-31T01:00Z'));
    expect(fire).toHaveLength(100);
    expect(fire.slice(-2).map(iso)).toEqual(['2030-03-31T00:59Z', '2030-03-31T01:00Z']);
  });
});

describe('when: what is refused', () => {
  const now = at('2030-01-01T00:00Z');
  const read = (when: unknown): unknown => readWhen(when as never, now);

  it.each([
    ['seven fields', '* * * * * * *'], ['four fields', '* * * *'], ['nothing', ''], ['a minute 60', '60 * * * *'],
    ['an hour 24', '0 24 * * *'], ['a day that never comes', '0 0 30 2 *'], ['10 KB', '1,'.repeat(5_000) + '1 * * * *'],
    ['an instant', '2031-01-01T00:00:00'], ['a word', 'daily'], ['@reboot', '@reboot'],
    ['a number', 5], ['null', null], ['a step without a start', '/5 * * * *'], ['a start that is none', '61/5 * * * *'],
    ['a step 0', '5/0 * * * *'], ['a step beyond the field', '5/70 * * * *'], ['two steps', '5/15/2 * * * *'],
    ['a step from the last day', '0 0 L/2 * *'],
  ])('%s as cron: INVALID_CRON', (_, cron) => {
    expect(() => read({ cron })).toThrow(expect.objectContaining({ code: 'INVALID_CRON' }));
  }); // biome-ignore format: one list

  it.each(['Mars/Olympus', '', '+02:00', 7, null])('%s as timeZone: INVALID_TIMEZONE', (timeZone) => {
    expect(() => read({ cron: '0 9 * * *', timeZone })).toThrow(expect.objectContaining({ code: 'INVALID_TIMEZONE' }));
  });

  it.each([
    [{}, 'INVALID_CRON'],
    [{ cron: '0 9 * * *', every: '1h' }, 'INVALID_CRON'],
    [{ every: 999 }, 'INVALID_DURATION'],
    [{ every: 'soon' }, 'INVALID_DURATION'],
    [{ every: -1 }, 'INVALID_DURATION'],
    [{ every: '1h', timeZone: 'UTC' }, 'INVALID_TIMEZONE'],
    [{ every: '1h', missed: 'never' }, 'UNKNOWN_OPTION'],
    [{ evry: '1h' }, 'UNKNOWN_OPTION'],
    [undefined, 'UNKNOWN_OPTION'],
    ['0 9 * * *', 'UNKNOWN_OPTION'],
  ])('%o: %s', (when, code) => {
    expect(() => read(when)).toThrow(expect.objectContaining({ code }));
  });

  it.each([
    ['0 9 * * 1-5', '2030-01-01T09:00Z'],
    ['  0   9 * * MON-FRI ', '2030-01-01T09:00Z'],
    ['@daily', '2030-01-02T00:00Z'],
    ['@hourly', '2030-01-01T01:00Z'],
    ['0 0 L * *', '2030-01-31T00:00Z'],
    ['30 0 0 * * *', '2030-01-01T00:00:30.000Z'],
  ])('%s is taken, in UTC unless a zone is given', (cron, expected) => {
    const { rhythm, missed } = readWhen({ cron }, now);
    expect(rhythm).toMatchObject({ timeZone: 'UTC' });
    expect([iso(nextTick(rhythm, now)!), missed]).toEqual([expected, 'once']);
  });
});

describe('when: n/step is from n to the end of its field', () => {
  it.each([
    ['5/15 * * * *', '5,20,35,50 * * * *'],
    ['40/10 7 * * * *', '40,50 7 * * * *'],
    ['0 3/6 * * *', '0 3,9,15,21 * * *'],
    ['0 0/1 * * *', '0 * * * *'],
    ['0 0 5/10 * *', '0 0 5,15,25 * *'],
    ['0 0 1 2/5 *', '0 0 1 2,7,12 *'],
    ['0 0 1 FEB/5 *', '0 0 1 2,7,12 *'],
    ['0 0 * * 1/2', '0 0 * * 1,3,5'],
    ['0 0 * * MON/2', '0 0 * * 1,3,5'],
    ['0 0 * * 7/2', '0 0 * * 0'],
    ['7,10/20,55 * * * *', '7,10,30,50,55 * * * *'],
  ])('%s is %s', (short, long) => {
    const ticksOf = (cron: string): string[] => {
      const ticks: string[] = [];
      for (let last = at('2030-10-26T00:00Z'); ticks.length < 60; ) {
        last = nextTick(cronIn('Europe/Berlin', cron), last)!;
        ticks.push(iso(last));
      }
      return ticks;
    };
    expect(readWhen({ cron: short }, at('2030-01-01T00:00Z')).rhythm).toMatchObject({ cron: short });
    expect(ticksOf(short)).toEqual(ticksOf(long));
  });
});
