/** The one file that may touch the clock, timers, chance and ids; everything else gets them from here. */
import { randomBytes, randomFillSync } from 'node:crypto';
import { performance } from 'node:perf_hooks';
import { digits, inDigits } from './core/digits.js';
import { notLate } from './core/harmless.js';
import type { System } from './core/system.js';

/** A longer timer would fire at once: Node keeps the delay in 31 bits. */
const longestTimerMs = 2 ** 31 - 1;

/** A clock that a caller may give to `open`. With `timer` it also decides when timers fire (see fakeClock). */
export interface GivenClock {
  now(): Date;
  timer?(ms: number, callback: () => void): () => void;
  monotonic?(): number;
  /** An answer from outside this process is on its way: the clock should not move before it has come. */
  awaiting?(answer: Promise<unknown>): void;
}

/** `blame` hears why a given clock could not be read. */
export function createSystem(clock?: GivenClock, blame?: (error: unknown) => void): System {
  const now = clock ? readingOf(clock, blame) : Date.now;
  return {
    now,
    givenNow: clock ? now : () => null,
    monotonic: clock?.monotonic ? () => clock.monotonic!() : () => performance.now(),
    timer: clock?.timer ? (ms, callback) => clock.timer!(ms, callback) : startTimer,
    soon: (callback) => void setImmediate(callback),
    inTurn(callback) {
      if (mayGoOn()) return callback();
      const called = new Promise<void>((resolve) => {
        inLine(() => {
          callback();
          resolve();
        });
      });
      clock?.awaiting?.(called);
    },
    stayAlive,
    hold(work) {
      const letGo = stayAlive();
      return work.finally(letGo);
    },
    awaiting(answer) {
      clock?.awaiting?.(answer);
      return answer;
    },
    random: Math.random,
    id: idMaker(now),
    token,
  };
}

/** A clock that cannot be read stands still: what it throws inside a timer would end the process. */
function readingOf(clock: GivenClock, blame: (error: unknown) => void = () => undefined): () => number {
  let last = 0;
  let failing = false;
  return () => {
    try {
      const at = notLate(clock.now()).getTime();
      if (Number.isNaN(at)) throw new Error('It shows no valid Date');
      failing = false;
      last = at;
    } catch (error) {
      if (!failing) blame(error);
      failing = true;
    }
    return last;
  };
}

/** What becomes of a line is not our trouble: console passes over a stderr that nobody reads any more. */
export const stderr = {
  get isTerminal(): boolean {
    return process.stderr.isTTY;
  },
  // eslint-disable-next-line no-console
  write: (line: string): void => console.error(line),
};

/** By the real clock, whatever clock was given. Others wait for 10 ms at most: a slow call needs the rest. */
const turnMaxMs = 5;
/** Where a turn has many calls, the clock is not read for each of them: that would be a good part of what a short one costs. */
const unreadMax = 16;
let turnBeganAt: number | null = null;
let callsInTurn = 0;
let readEvery = 1;
/** Called back in the next turns. */
const line: (() => void)[] = [];

/** Nobody waits in line, and this turn has not lasted too long. */
function mayGoOn(): boolean {
  return line.length === 0 && isYoung();
}

function isYoung(): boolean {
  callsInTurn += 1;
  if (turnBeganAt === null) {
    turnBeganAt = performance.now();
    setImmediate(endTurn);
    return true;
  }
  return callsInTurn % readEvery !== 0 || performance.now() - turnBeganAt < turnMaxMs;
}

function endTurn(): void {
  readEvery = Math.min(unreadMax, (callsInTurn >> 6) + 1);
  callsInTurn = 0;
  turnBeganAt = null;
}

function inLine(callback: () => void): void {
  if (line.push(callback) === 1) setImmediate(runLine);
}

function runLine(): void {
  try {
    do callFirst();
    while (line.length > 0 && isYoung());
  } finally {
    if (line.length > 0) setImmediate(runLine);
  }
}

/** It leaves the line when it has been called, also if it throws: whoever comes meanwhile stands behind it. */
function callFirst(): void {
  try {
    line[0]!();
  } finally {
    line.shift();
  }
}

/** How many keep the process alive, and the one timer that does it for them all. */
let staying = 0;
let lifeline: NodeJS.Timeout | undefined;
function stayAlive(): () => void {
  if (staying++ === 0) lifeline = setInterval(() => undefined, longestTimerMs);
  let isOver = false;
  return () => {
    if (isOver) return;
    isOver = true;
    if (--staying === 0) clearInterval(lifeline);
  };
}

const letters = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Each letter is drawn alike: the bytes that would favour the first ones are drawn again. */
function token(length: number): string {
  let text = '';
  while (text.length < length)
    for (const byte of randomBytes(length))
      if (byte < 248 && text.length < length) text += letters[byte % letters.length]!;
  return text;
}

function startTimer(ms: number, callback: () => void, hold?: 'hold'): () => void {
  let timer: NodeJS.Timeout;
  const arm = (leftMs: number): void => {
    const next = leftMs > longestTimerMs ? () => arm(leftMs - longestTimerMs) : callback;
    timer = setTimeout(next, Math.min(leftMs, longestTimerMs));
    if (!hold) timer.unref();
  };
  arm(ms);
  return () => clearTimeout(timer);
}

/** Chance is drawn for many ids at once: a call for ten bytes costs as much as one for a thousand. */
const drawn = new Uint8Array(1_000);
let used = drawn.length;
function draw(into: Uint8Array): void {
  if (used + into.length > drawn.length) {
    randomFillSync(drawn);
    used = 0;
  }
  into.set(drawn.subarray(used, (used += into.length)));
}

/** Every pair of digits, in order: an id is put together from few parts. */
const pairs = Array.from({ length: 32 * 32 }, (_, n) => digits[n >> 5]! + digits[n & 31]!);

/** Ten digits of time, ten of chance; within one millisecond the chance part counts up, so ids stay in order. */
function idMaker(now: () => number): () => string {
  let last = -1;
  /** All but the last two digits. */
  let head = '';
  let pair = 0;
  const tail = new Uint8Array(10);
  function begin(): void {
    head = inDigits(last);
    for (let i = 0; i < 8; i++) head += digits[tail[i]!];
    pair = tail[8]! * 32 + tail[9]!;
  }
  return () => {
    const at = Math.max(now(), last);
    if (at !== last) {
      last = at;
      draw(tail);
      for (let i = 0; i < 10; i++) tail[i]! &= 31;
      tail[0]! &= 15; // leaves room to count up
      begin();
    } else if (pair < pairs.length - 1) {
      pair += 1;
    } else {
      countUp(tail);
      begin();
    }
    return head + pairs[pair]!;
  };
}

/** Carries into the first eight digits; the last two start anew. */
function countUp(tail: Uint8Array): void {
  tail[8] = tail[9] = 0;
  for (let i = 7; i >= 0; i--) {
    tail[i] = (tail[i]! + 1) & 31;
    if (tail[i] !== 0) return;
  }
}

/** As it was when this file was loaded. */
const ownImmediate = setImmediate;

/** Whether a tool for tests has put its own turns of the event loop in the place of the real ones: then nobody ever takes one. */
export function areTurnsFaked(): boolean {
  return setImmediate !== ownImmediate || 'clock' in setImmediate || '_isMockFunction' in setImmediate;
}
