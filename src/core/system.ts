/** What the rest asks of the outside world: time, timers, chance and ids. One file implements it. */
export interface System {
  /** Wall clock, in milliseconds since 1970: for what is stored. */
  now(): number;
  /** What a given clock shows; null: none was given, and a store with a clock of its own goes by that one. */
  givenNow(): number | null;
  /** Monotonic clock, in milliseconds: for durations inside this process. */
  monotonic(): number;
  /**
   * Calls back once after `ms`. Keeps the process alive only with `hold`: where a caller awaits the outcome, never for
   * the library's own rhythms. Returns a function that calls it off.
   */
  timer(ms: number, callback: () => void, hold?: 'hold'): () => void;
  /** Calls back at the end of this turn of the event loop; keeps the process alive until then. */
  soon(callback: () => void): void;
  /**
   * Calls back at once, or, once this turn of the event loop has lasted for some milliseconds, in one of the next turns, in
   * the order of the calls: a chain of awaits that never leaves this process would keep timers and I/O waiting for ever.
   */
  inTurn(callback: () => void): void;
  /** The process lives until the returned function is called, whatever the library's own timers and sockets do. */
  stayAlive(): () => void;
  /** Somebody awaits this work: the process lives until it is over. */
  hold<T>(work: Promise<T>): Promise<T>;
  /** Says that an answer from outside this process is on its way: a clock that tests move waits for it. */
  awaiting<T>(answer: Promise<T>): Promise<T>;
  /** 0 ≤ x < 1. */
  random(): number;
  /** A new job id: 20 characters, ordered by time. */
  id(): string;
  /** So many letters and digits by chance, 5.95 bits each: a short link. */
  token(length: number): string;
}

/** Resolves after `ms`, or at once when the signal aborts. */
export function pause(system: System, ms: number, signal?: AbortSignal, hold?: 'hold'): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      callOff();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const callOff = system.timer(ms, done, hold);
    signal?.addEventListener('abort', done, { once: true });
  });
}

/** Resolves with the work, or without it after `ms`: for an end that must come whatever hangs. */
export async function atMost(system: System, ms: number, work: Promise<unknown>): Promise<void> {
  const done = new AbortController();
  const worked = work.finally(() => done.abort());
  await Promise.race([worked, pause(system, Math.max(0, ms), done.signal, 'hold')]);
}
