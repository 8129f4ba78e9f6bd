// How long a failed job waits: the four curves, their bounds and their jitter, and functions that may be broken.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { backoffMs, defaults, functionBackoffMs, type StoredBackoff } from '../src/core/policy.js';
import { type Backoff, defineJob, type JobError } from '../src/index.js';
import { eachStore, type OnStore } from './support.js';

const year = 365 * 86_400_000;

/** Runs a job that always throws and tells how long it waited after each attempt. */
async function waitsOf(on: OnStore, backoff: Backoff | undefined, attempts: number): Promise<number[]> {
  const { queue, clock } = await on.still();
  const begun: number[] = [];
  const ended = new Promise<void>((resolve) => {
    queue.on('failed', () => resolve());
  });
  const type = defineJob('break', {
    attempts,
    ...(backoff && { backoff }),
    run: () => {
      begun.push(clock.now().getTime());
      throw new Error(`attempt ${begun.length}`);
    },
  });
  await queue.work([type]);
  const { id } = await queue.enqueue(type, null);
  const waits: number[] = [];
  await clock.settle();
  for (let attempt = 1; attempt < attempts; attempt++) {
    const job = await queue.get(id);
    expect(job).toMatchObject({ state: 'pending', attempts: attempt, error: { message: `attempt ${attempt}` } });
    const wait = job!.scheduledFor.getTime() - clock.now().getTime();
    waits.push(wait);
    if (wait > 1) {
      await clock.advance(wait - 1);
      expect(begun, 'one millisecond too early').toHaveLength(attempt);
    }
    await clock.advance(Math.min(wait, 1));
    expect(begun, 'on time').toHaveLength(attempt + 1);
  }
  await clock.settle();
  expect(await queue.get(id)).toMatchObject({ state: 'failed', attempts });
  await ended;
  expect(begun.slice(1).map((at, index) => at - begun[index]!)).toEqual(waits);
  return waits;
}

describe('backoff, seen as real retries', () => {
  eachStore((on) => {
    it('fixed waits the base each time', async () => {
      expect(await waitsOf(on, { type: 'fixed', base: '2s' }, 5)).toEqual([2_000, 2_000, 2_000, 2_000]);
    });

    it('linear waits the base times the attempt', async () => {
      expect(await waitsOf(on, { type: 'linear', base: '1s' }, 5)).toEqual([1_000, 2_000, 3_000, 4_000]);
    });

    it('exponential doubles', async () => {
      expect(await waitsOf(on, { type: 'exponential', base: '1s' }, 6)).toEqual([1_000, 2_000, 4_000, 8_000, 16_000]);
    });

    it('quadratic waits 1 s, 4 s, 9 s', async () => {
      expect(await waitsOf(on, { type: 'quadratic', base: '1s' }, 4)).toEqual([1_000, 4_000, 9_000]);
    });

    it('max bounds each of them', async () => {
      expect(await waitsOf(on, { type: 'exponential', base: '1s', max: '5s' }, 6)).toEqual([
        1_000, 2_000, 4_000, 5_000, 5_000,
      ]);
      expect(await waitsOf(on, { type: 'quadratic', base: '1s', max: '5s' }, 4)).toEqual([1_000, 4_000, 5_000]);
    });

    it('a base of 0 tries again at once', async () => {
      const { queue, clock } = await on.still();
      const type = defineJob('break', {
        attempts: 3,
        backoff: { type: 'exponential', base: 0 },
        run: () => {
          throw new Error('no');
        },
      });
      await queue.work([type]);
      const { id } = await queue.enqueue(type, null);
      const job = await queue.wait(id);
      expect(job).toMatchObject({ state: 'failed', attempts: 3, completedAt: clock.now() });
    });

    it('jitter adds at most its share', async () => {
      const waits = await waitsOf(on, { type: 'fixed', base: '10s', jitter: 0.5 }, 6);
      for (const wait of waits) {
        expect(wait).toBeGreaterThanOrEqual(10_000);
        expect(wait).toBeLessThanOrEqual(15_000);
      }
    });

    it('the default is exponential from 1 s with a jitter of 0.2, for three attempts', async () => {
      const [first, second] = (await waitsOf(on, undefined, 3)) as [number, number];
      expect(first).toBeGreaterThanOrEqual(1_000);
      expect(first).toBeLessThanOrEqual(1_200);
      expect(second).toBeGreaterThanOrEqual(2_000);
      expect(second).toBeLessThanOrEqual(2_400);
    });

    it('a function is asked with the attempt and the error, and its answer may be any duration', async () => {
      const asked: [number, JobError][] = [];
      const backoff: Backoff = (attempt, error) => {
        asked.push([attempt, error]);
        return attempt === 1 ? '3s' : 500;
      };
      expect(await waitsOf(on, backoff, 3)).toEqual([3_000, 500]);
      expect(asked).toEqual([
        [1, { message: 'attempt 1', stack: expect.any(String) }],
        [2, { message: 'attempt 2', stack: expect.any(String) }],
      ]);
    });

    it.each([
      ['throws', () => { throw new Error('broken'); }],
      ['returns nothing', () => undefined],
      ['returns NaN', () => Number.NaN],
      ['returns a negative number', () => -5],
      ['returns a text that is no duration', () => '5'],
      ['returns a promise', () => Promise.resolve(5)],
      ['returns more than ten years', () => 1e300],
    ])('a function that %s falls back to the default', async (_what, broken) => {
      const [first] = await waitsOf(on, broken as unknown as Backoff, 2);
      expect(first).toBeGreaterThanOrEqual(1_000);
      expect(first).toBeLessThanOrEqual(1_200);
    }); // biome-ignore format: one case a line

    it('backoff given with one job outranks the function of its definition', async () => {
      const { queue, clock } = await on.still();
      const type = defineJob('break', {
        backoff: () => '1h',
        run: () => {
          throw new Error('no');
        },
      });
      await queue.work([type]);
      const { id } = await queue.enqueue(type, null, { backoff: { type: 'fixed', base: '7s' } });
      await clock.settle();
      const job = await queue.get(id);
      expect(job!.scheduledFor.getTime() - clock.now().getTime()).toBe(7_000);
    });

    it('a worker whose definition has no function uses the default for jobs that were made with one', async () => {
      const { queue, clock } = await on.still();
      const { id } = await queue.enqueue(defineJob('break', { backoff: () => '1h' }), null);
      await queue.work([
        defineJob('break', {
          run: () => {
            throw new Error('no');
          },
        }),
      ]);
      await clock.settle();
      const wait = (await queue.get(id))!.scheduledFor.getTime() - clock.now().getTime();
      expect(wait).toBeGreaterThanOrEqual(1_000);
      expect(wait).toBeLessThanOrEqual(1_200);
    });

    it('B75: at attempt 10,000 of an exponential backoff the job still waits a bounded time', async () => {
      const { queue, clock } = await on.still();
      const type = defineJob('break', {
        attempts: 10_000,
        backoff: { type: 'exponential', base: '10s' },
        run: () => {
          throw new Error('no');
        },
      });
      await queue.work([type]);
      const { id } = await queue.enqueue(type, null);
      // Enough attempts that the wait has reached its ceiling of a year; the curve itself is checked to 10,000 below.
      let waited = 0;
      for (let attempt = 1; attempt <= 30; attempt++) {
        await clock.settle();
        const job = await queue.get(id);
        expect(job).toMatchObject({ state: 'pending', attempts: attempt });
        const wait = job!.scheduledFor.getTime() - clock.now().getTime();
        expect(wait).toBeGreaterThanOrEqual(waited);
        expect(wait).toBeLessThanOrEqual(year);
        waited = wait;
        await queue.reschedule(id, { delay: 0 });
      }
      expect(waited).toBe(year);
    });
  });
});

describe('backoff, as a curve', () => {
  const curve = (type: StoredBackoff['type']) => (attempt: number) => backoffMs({ type, base: 1_000 }, attempt, 0);

  it.each([
    ['fixed', [1_000, 1_000, 1_000, 1_000]],
    ['linear', [1_000, 2_000, 3_000, 4_000]],
    ['exponential', [1_000, 2_000, 4_000, 8_000]],
    ['quadratic', [1_000, 4_000, 9_000, 16_000]],
  ] as const)('%s', (type, waits) => {
    expect([1, 2, 3, 4].map(curve(type))).toEqual(waits);
  });

  it('B75: never overflows and never falls, for every type, base and attempt up to 10,000', () => {
    fc.assert(
      fc.property(
        fc.record({
          type: fc.constantFrom('fixed', 'linear', 'exponential', 'quadratic' as const),
          base: fc.nat(10 * year),
          max: fc.option(fc.nat(10 * year), { nil: undefined }),
          jitter: fc.option(fc.double({ min: 0, max: 1, noNaN: true }), { nil: undefined }),
        }),
        fc.integer({ min: 1, max: 9_999 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        ({ type, base, max, jitter }, attempt, random) => {
          const backoff: StoredBackoff = {
            type,
            base,
            ...(max !== undefined && { max }),
            ...(jitter !== undefined && { jitter }),
          };
          const wait = backoffMs(backoff, attempt, random);
          const plain = backoffMs({ ...backoff, jitter: 0 }, attempt, random);
          expect(Number.isSafeInteger(wait)).toBe(true);
          expect(plain).toBeGreaterThanOrEqual(0);
          expect(plain).toBeLessThanOrEqual(Math.min(max ?? year, year));
          expect(wait).toBeGreaterThanOrEqual(plain);
          expect(wait).toBeLessThanOrEqual(Math.ceil(plain * (1 + (jitter ?? 0))));
          expect(backoffMs({ ...backoff, jitter: 0 }, attempt + 1, random)).toBeGreaterThanOrEqual(plain);
        },
      ),
    );
  });

  it('B75: every attempt from 1 to 10,000 of the default waits between one second and 72', () => {
    for (let attempt = 1; attempt <= 10_000; attempt++) {
      const wait = backoffMs(defaults.backoff, attempt, 0.999);
      expect(wait).toBeGreaterThanOrEqual(1_000);
      expect(wait).toBeLessThanOrEqual(72_000);
    }
  });

  it('the answer of a function is bounded by a year', () => {
    expect(functionBackoffMs(() => '400d', 1, { message: '' })).toBe(year);
  });
});
