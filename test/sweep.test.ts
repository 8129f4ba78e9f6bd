// A pass of the cleanup: what it says, who may do it, what it leaves in the ledger, and that it survives anything.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { createSlice } from '../src/lifecycle/slice.js';
import type { Engine } from '../src/core/store.js';
import { open, type OpenOptions, type Queue } from '../src/index.js';
import { createSystem } from '../src/system.js';
import { processesOn } from './engines.js';
import { byHand, completes, contextFor, day, handClock, hour, minute, t0, watchedBlobs } from './lifecycle-support.js';
import { compilePrograms } from './programs.js';
import { closedAfterwards, eachStore, expectCode, gate, type LoggedLine, recordingLogger, tapped } from './support.js';

/** Elsewhere than in memory, a pass that found nothing is one debug line. */
const words = (engine: Engine, inMemory: readonly string[]) =>
  engine === 'memory' ? inMemory.map((message) => ['info', message]) : [['debug', 'No cleanup needed']];
const said = (lines: readonly LoggedLine[]) => lines.map(({ level, message }) => [level, message]);
const infos = (lines: readonly LoggedLine[]): string[] =>
  lines.filter(({ level }) => level === 'info').map(({ message }) => message);

async function cancelled(queue: Queue, n: number): Promise<void> {
  for (let left = n; left > 0; left -= 1_000) {
    const type = `old-${left}`;
    await queue.enqueueMany(Array.from({ length: Math.min(left, 1_000) }, () => ({ type, input: null })));
    await queue.cancel({ type });
  }
}

describe('the log of a sweep', () => {
  eachStore((on) => {
    it('says how many jobs went from where', async () => {
      const { logger, lines } = recordingLogger();
      const { queue, clock } = await byHand(on, { logger });
      await cancelled(queue, 3);
      clock.at = t0 + day + 1;
      lines.length = 0;
      await queue.sweep();
      expect(infos(lines)).toEqual([`Removed 3 old jobs from ${on.engine}`]);
    });

    it('says that no cleanup was needed where none was', async () => {
      const { logger, lines } = recordingLogger();
      const { queue } = await byHand(on, { logger });
      await queue.enqueue('job', null);
      lines.length = 0;
      await queue.sweep();
      expect(said(lines)).toEqual(words(on.engine, ['No cleanup needed', 'Removed: 0 jobs']));
    });

    it('says why, where the queue is empty', async () => {
      const { logger, lines } = recordingLogger();
      const { queue } = await byHand(on, { logger });
      lines.length = 0;
      await queue.sweep();
      expect(said(lines)).toEqual(words(on.engine, ['No cleanup needed', 'Removed: 0 jobs', 'Nothing to clean']));
    });
  });
});

describe('a sweep that fails', () => {
  eachStore((on) => {
    it('is logged and counted in the next report, and stops neither the process nor the next pass', async () => {
      const { logger, lines } = recordingLogger();
      const state = { failing: false };
      const factory = tapped(on.factory(), (store) => ({
        async sweepInTerm(term, request) {
          if (state.failing) throw new Error('disk full');
          return store.sweepInTerm(term, request);
        },
      }));
      const options: OpenOptions = { logger, cleanup: { cleanupIntervalMs: minute, jobRetentionMs: 0 } };
      const { queue, clock } = await on.still(options, factory);
      await clock.settle();
      await cancelled(queue, 1);
      state.failing = true;
      await clock.advance(2 * minute);
      expect(lines.filter(({ level }) => level === 'error')).toEqual(
        Array.from({ length: 2 }, () => ({
          level: 'error',
          message: 'Cleanup failed; it is tried again',
          fields: { error: expect.stringContaining('disk full') as string },
        })),
      );
      state.failing = false;
      await clock.advance(minute);
      const { items } = await queue.ledger();
      expect(items[0]).toMatchObject({ removed: 1, failures: 2 });
      await clock.advance(minute);
      expect((await queue.ledger()).items[0]).toMatchObject({ removed: 0, failures: 0 });
    });

    it('because blobs cannot be listed, still removes what the store removes', async () => {
      const { logger, lines } = recordingLogger();
      const clock = handClock();
      const watched = watchedBlobs(clock);
      const { queue, clock: own } = await byHand(on, { logger, artifacts: { blobs: watched.blobs } });
      await cancelled(queue, 2);
      own.at = t0 + day + 1;
      watched.fail(async (verb) => {
        if (verb === 'list') throw new Error('no such bucket');
      });
      expect(await queue.sweep()).toMatchObject({ removed: 2, failures: 1 });
      expect(lines).toContainEqual({
        level: 'error',
        message: 'Cleanup failed; it is tried again',
        fields: { error: 'no such bucket' },
      });
    });
  });
});

describe('one maintainer at a time', () => {
  eachStore((on) => {
    it('a sweep waits for the one that another process has under way, and then does its own', async () => {
      const connect = processesOn(on.engine);
      const inPass = gate();
      const goOn = gate();
      const clock = handClock();
      let stops = 0;
      const slow = tapped(connect(), (store) => ({
        async endTerm(holder, entry) {
          if (stops++ === 1) {
            inPass.open();
            await goOn.opened;
          }
          return store.endTerm(holder, entry);
        },
      }));
      const one = closedAfterwards(await open(slow, { clock }));
      await one.stopPeriodicCleanup();
      const toldBusy = gate();
      const told = tapped(connect(), (store) => ({
        async sweepInTerm(term, request) {
          const swept = await store.sweepInTerm(term, request);
          if (swept.term === null) toldBusy.open();
          return swept;
        },
      }));
      const other = closedAfterwards(await open(told, { clock }));
      await other.stopPeriodicCleanup();
      const before = (await other.ledger()).items.length;
      const first = one.sweep();
      await inPass.opened;
      await cancelled(other, 2);
      clock.at = t0 + 10;
      const second = other.sweep();
      let done = false;
      void second.finally(() => (done = true));
      await toldBusy.opened;
      expect(done).toBe(false);
      goOn.open();
      const reports = [await first, await second];
      expect(reports[0]!.by).not.toBe(reports[1]!.by);
      const { items } = await other.ledger();
      expect(items.slice(0, items.length - before)).toEqual([reports[1], reports[0]]);
    });

    it('a sweep says so when another process is at it and does not come to an end', async () => {
      const endless = tapped(on.factory(), (store) => ({
        sweepInTerm: async (_, request) => ({ ...(await store.sweep(request)), term: null }),
      }));
      const { queue, clock } = await on.still({}, endless);
      const refused = expectCode('WAIT_TIMEOUT', () => queue.sweep());
      await clock.advance(5 * minute);
      await refused;
      expect((await queue.ledger()).items).toEqual([]);
    });

    it('by the rhythm, a process leaves the work to another one, and looks after it when its term is over', async () => {
      const connect = processesOn(on.engine);
      const cleanup = { maxStoredJobs: 1_000, jobRetentionMs: 0, cleanupIntervalMs: hour, useCompletedTime: true };
      const { queue, clock } = await on.still({ cleanup }, connect());
      await clock.settle();
      await cancelled(queue, 1);
      await clock.advance(hour - 1_000);
      const dead = await connect().open({ ...contextFor(handClock()), system: createSystem(clock) });
      const term = { holder: 'dead', ttlMs: 30_000 };
      // It takes the term and is not heard of again.
      const spare = { ...cleanup, jobRetentionMs: day };
      expect((await dead.sweepInTerm(term, { limit: 1, cleanup: spare })).term).not.toBeNull();
      await clock.advance(1_000);
      expect((await queue.stats()).total.cancelled).toBe(1);
      await clock.advance(30_000);
      expect((await queue.stats()).total.cancelled).toBe(0);
      expect((await queue.ledger()).items[0]).toMatchObject({ removed: 1 });
      await dead.close();
    });
  });
});

describe('the ledger', () => {
  eachStore((on) => {
    it('has one entry for each pass, newest first, page by page, equal to the reports', async () => {
      const { queue, clock } = await byHand(on);
      const reports = [];
      for (let i = 0; i < 5; i++) {
        await cancelled(queue, i);
        clock.at += day + 1;
        reports.unshift(await queue.sweep());
      }
      expect(reports.map(({ removed }) => removed)).toEqual([4, 3, 2, 1, 0]);
      const first = await queue.ledger({ limit: 3 });
      expect(first.items).toEqual(reports.slice(0, 3));
      const second = await queue.ledger({ limit: 3, cursor: first.next! });
      expect(second.items.slice(0, 2)).toEqual(reports.slice(3));
    });

    it('refuses a page that is none', async () => {
      const { queue } = await byHand(on);
      await expectCode('INVALID_LIMIT', () => queue.ledger({ limit: 0 }));
      await expectCode('INVALID_CURSOR', () => queue.ledger({ cursor: 7 as never }));
      await expectCode('UNKNOWN_OPTION', () => queue.ledger({ limt: 3 } as never));
    });
  });
});

describe('a maintainer that is killed in the middle of a pass', () => {
  eachStore((on) => {
    it('is followed by another: nothing is left, and no pass is in the ledger twice', {
      timeout: 240_000,
    }, async () => {
      const connect = processesOn(on.engine);
      const clock = handClock();
      const watched = watchedBlobs(clock);
      const artifacts = { blobs: watched.blobs };
      const cleanup = { maxStoredJobs: Number.POSITIVE_INFINITY };
      const maker = closedAfterwards(await open(connect(), { clock, artifacts, cleanup }));
      await maker.stopPeriodicCleanup();
      let finished = 0;
      let died = 0;
      for (let round = 0; round < 50; round++) {
        for (let i = 0; i < 2; i++)
          await completes(maker, async ({ artifact }) => void (await artifact.put('out', 'x')));
        finished += 2;
        clock.at += day + 1;
        died += await killedAt(connect, { clock, artifacts, cleanup }, watched, round % 12);
        clock.at += minute; // its term has lapsed
      }
      expect(died).toBe(50);
      const last = await maker.sweep();
      expect(last.failures).toBe(0);
      expect((await maker.find()).items).toEqual([]);
      expect((await maker.find({ queue: 'lastout' })).items).toEqual([]);
      expect(await watched.inner.used()).toBe(0);
      expect(await maker.audit()).toMatchObject({
        clean: true,
        kinds: { job: { created: finished, released: finished, live: 0 } },
      });
      const entries = [];
      for (let cursor: string | undefined; ; ) {
        const page = await maker.ledger({ limit: 200, ...(cursor !== undefined && { cursor }) });
        entries.push(...page.items);
        if (page.next === null) break;
        cursor = page.next;
      }
      const names = entries.map(({ by, at }) => `${by} ${at.toISOString()}`);
      expect(new Set(names).size).toBe(names.length);
    });
  });

  /** Starts a pass whose process is gone at the n-th call to the store or to the blobs; 0: it ended before. */
  async function killedAt(
    connect: ReturnType<typeof processesOn>,
    options: OpenOptions & { clock: ReturnType<typeof handClock> },
    watched: ReturnType<typeof watchedBlobs>,
    n: number,
  ): Promise<0 | 1> {
    let calls = 0;
    const died = gate();
    const never = new Promise<never>(() => undefined);
    const pass = async (): Promise<void> => {
      calls += 1;
      if (calls <= n + 1) return;
      died.open();
      await never;
    };
    const store = await connect().open(contextFor(options.clock));
    const through = tapped({ engine: store.engine, open: async () => store }, (inner) => ({
      sweep: async (request) => (await pass(), inner.sweep(request)),
      find: async (request) => (await pass(), inner.find(request)),
      move: async (request) => (await pass(), inner.move(request)),
      close: async () => undefined,
    }));
    watched.fail(pass);
    const queue = await open(through, options);
    const swept = queue.sweep().then(
      () => 0 as const,
      () => 0 as const,
    );
    const isDead = await Promise.race([died.opened.then(() => 1 as const), swept]);
    watched.fail(async () => undefined);
    await store.close();
    return isDead;
  }
});

describe('a process that has nothing else to do', () => {
  /** What it says from the start of its cleanup on. */
  async function saysAfter(awaits: string): Promise<string[]> {
    const { stdout } = await promisify(execFile)(process.execPath, [compilePrograms().sweep, awaits]);
    const lines = stdout.trim().split('\n');
    return lines.slice(lines.indexOf('started') + 1);
  }

  it('is not kept alive by a cleanup that nobody awaits, not even in the middle of it', async () => {
    expect(await saysAfter('nothing')).toEqual(['ended']);
  });

  it('lives until a cleanup that it awaits has ended', async () => {
    const removed = 'Removed 20000 old jobs from memory';
    expect(await saysAfter('stop')).toEqual([removed, 'ended']);
    expect(await saysAfter('sweep')).toEqual([removed, 'ended']);
  });

  it('that closes ends without waiting for all of it', async () => {
    expect((await saysAfter('close')).at(-1)).toBe('ended');
  });
});

describe('the parts of a cleanup', () => {
  /** The sizes of parts in which a call costs `fixedMs` and each row `rowMs`. */
  async function limitsWhere(fixedMs: number, rowMs: number): Promise<number[]> {
    let now = 0;
    const slice = createSlice({ ...createSystem(), monotonic: () => now }, 50, new AbortController().signal);
    const limits: number[] = [];
    for (let i = 0; i < 200; i++) {
      await slice.measure(async (limit) => {
        limits.push(limit);
        now += fixedMs + limit * rowMs;
      });
    }
    return limits;
  }

  it('begin with 50 rows, and stay small where rows are dear', async () => {
    const limits = await limitsWhere(0, 0.5);
    expect(limits[0]).toBe(50);
    expect(Math.max(...limits)).toBeLessThan(55);
  });

  it('have at least as many rows as the store says', async () => {
    async function leastOf(least: number): Promise<number> {
      let now = 0;
      const slice = createSlice({ ...createSystem(), monotonic: () => now }, least, new AbortController().signal);
      const limits: number[] = [];
      for (const ms of [0.5, 10, 10, 10, 10, 10]) {
        await slice.measure(async (limit) => {
          limits.push(limit);
          now += ms;
        });
      }
      return limits.at(-1)!;
    }
    expect(await Promise.all([50, 25].map(leastOf))).toEqual([50, 25]);
  });

  it('grow to what a millisecond holds, up to 500', async () => {
    expect((await limitsWhere(0, 0.01)).at(-1)).toBe(100);
    expect((await limitsWhere(0.1, 0.001)).at(-1)).toBe(500);
  });

  it('take half as long again as the cheapest one where that is longer, but no more than 2 ms', async () => {
    expect((await limitsWhere(1, 0.01)).at(-1)).toBe(125); // 1.5 ms, and then 2.25
    const limit = (await limitsWhere(9, 0.02)).at(-1)!; // 10 ms, and then 12
    expect(limit).toBeGreaterThan(145);
    expect(limit).toBeLessThanOrEqual(150);
  });

  it('leave others as much time as they took, up to 5 ms, and go on at once where no time passes', async () => {
    let now = 0;
    const pauses: number[] = [];
    const timer = (ms: number, callback: () => void): (() => void) => {
      pauses.push(ms);
      setImmediate(callback);
      return () => undefined;
    };
    const system = { ...createSystem(), monotonic: () => now, timer };
    const slice = createSlice(system, 50, new AbortController().signal);
    for (const ms of [3, 0, 7]) {
      await slice.measure(async () => void (now += ms));
      await slice.rest();
    }
    expect(pauses).toEqual([3, 5]);
  });
});
