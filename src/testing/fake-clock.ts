import { type Duration, toMs } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { areTurnsFaked, createSystem } from '../system.js';

/** A clock that stands still until it is told to move, and that decides when timers fire. */
export interface FakeClock {
  now(): Date;
  monotonic(): number;
  timer(ms: number, callback: () => void): () => void;
  /** The clock does not move before this answer has come. */
  awaiting(answer: Promise<unknown>): void;
  /** Moves on, firing every timer on its way in order; what they start is given time to run before the next. */
  advance(by: Duration): Promise<void>;
  /** Lets everything that can run without the clock moving run. */
  settle(): Promise<void>;
  /** Timers that have not fired; for tests that want none left. */
  readonly pendingTimers: number;
}

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly callback: () => void;
}

export function fakeClock(start: Date = new Date('2030-01-01T00:00:00Z')): FakeClock {
  const startMs = start.getTime();
  const timers = new Set<Timer>();
  let now = startMs;
  let order = 0;
  const underWay = new Set<Promise<unknown>>();

  /** Also waits for stores outside this process, which may ask again as soon as they have answered. */
  async function turns(): Promise<void> {
    await fewTurns();
    for (let rounds = 0; underWay.size > 0 && rounds < roundsMax; rounds++) {
      await Promise.race(underWay);
      await fewTurns();
    }
  }

  function nextUpTo(end: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of timers) {
      if (timer.at > end) continue;
      if (!next || timer.at < next.at || (timer.at === next.at && timer.order < next.order)) next = timer;
    }
    return next;
  }

  return {
    now: () => new Date(now),
    monotonic: () => now - startMs,
    timer(ms, callback) {
      const timer = { at: now + Math.max(0, ms), order: order++, callback };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    awaiting(answer) {
      const over = (): void => void underWay.delete(settled);
      const settled: Promise<void> = answer.then(over, over);
      underWay.add(settled);
    },
    async advance(by) {
      const end = now + toMs(by, 'What advance was given');
      await turns();
      for (let timer = nextUpTo(end); timer; timer = nextUpTo(end)) {
        timers.delete(timer);
        now = Math.max(now, timer.at);
        timer.callback();
        await turns();
      }
      now = end;
      await turns();
    },
    settle: turns,
    get pendingTimers() {
      return timers.size;
    },
  };
}

/** A test would hang until its runner gives it up, and nothing would say why. */
export function refuseFakedTurns(): void {
  if (!areTurnsFaked()) return;
  throw new LastoutError(
    'INVALID_INPUT',
    'The timers of this process are faked (useFakeTimers of vitest, jest or sinon), so lastout cannot go on. Move time with ' +
      "clock.advance of testQueue or fakeClock alone, and leave setImmediate real: vi.useFakeTimers({ toFake: ['Date'] }).",
  );
}

/** A few turns of the real event loop: enough for a chain of awaits over a store in this process. */
async function fewTurns(): Promise<void> {
  refuseFakedTurns();
  for (let i = 0; i < 8; i++) await new Promise<void>((resolve) => realTime.soon(resolve));
}

/** Who asks a store without end is not waited for without end. */
const roundsMax = 1_000;

const realTime = createSystem();
