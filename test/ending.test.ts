// How the demo and the tours hear that they are to end. Each has a copy of its own, as an example is read by itself.
import { readFileSync } from 'node:fs';
import { afterEach, expect, test, vi } from 'vitest';
import { endOnSignals } from '../demo/ending.js';

type Name = 'SIGINT' | 'SIGTERM' | 'SIGHUP' | 'EPIPE';

afterEach(() => void vi.restoreAllMocks());

/** Listens, and gives back what was added to the process, to be called by hand. */
function listening(): { signal: AbortSignal; hear: { [name in Name]: () => void } } {
  const added = new Map<string, () => void>();
  const on = (name: string | symbol, listener: (...args: never[]) => void): NodeJS.Process => {
    added.set(String(name), listener);
    return process;
  };
  vi.spyOn(process, 'on').mockImplementation(on as typeof process.on);
  vi.spyOn(process.stdout, 'on').mockImplementation((name: string, listener: () => void) => {
    added.set('EPIPE', listener);
    expect(name).toBe('error');
    return process.stdout;
  });
  const signal = endOnSignals();
  const hear = Object.fromEntries([...added]) as ReturnType<typeof listening>['hear'];
  return { signal, hear };
}

function codes(act: () => void): { code: typeof process.exitCode; exits: number } {
  const before = process.exitCode;
  const exit = vi.spyOn(process, 'exit').mockImplementation((() => undefined) as never);
  act();
  const code = process.exitCode;
  process.exitCode = before;
  return { code, exits: exit.mock.calls.length };
}

test('the copies are the same', () => {
  const read = (path: string): string => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');
  for (const path of ['examples/site-builder/src/ending.ts', 'examples/in-memory-cleanup/src/ending.ts'])
    expect(read(path)).toBe(read('demo/ending.ts'));
});

test('each signal aborts, and gives its exit code', () => {
  for (const [name, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
    ['EPIPE', 141],
  ] as const) {
    const { signal, hear } = listening();
    expect(signal.aborted).toBe(false);
    expect(codes(hear[name])).toEqual({ code, exits: 0 });
    expect(signal.aborted).toBe(true);
    vi.restoreAllMocks();
  }
});

test('the echo of a signal is not a second one; a second one ends the process at once, with the code of the first', () => {
  const now = vi.spyOn(performance, 'now').mockReturnValue(1_000);
  const { hear } = listening();
  const at = (ms: number, act: () => void): void => {
    now.mockReturnValue(ms);
    act();
  };
  const ended = codes(() => {
    at(1_000, hear.SIGINT);
    at(1_249, hear.SIGTERM);
    at(5_000, hear.EPIPE); // what nobody reads is no second signal
    expect(process.exit).not.toHaveBeenCalled();
    at(1_250, hear.SIGTERM);
  });
  expect(ended).toEqual({ code: 130, exits: 1 });
});
