import { expect, test } from 'vitest';
import { Host } from '../src/host.js';
import { Narrator } from '../src/narrator.js';
import { tour } from '../src/tour.js';
import { recordingLogger, temporaryFolder } from './support.js';

/** Runs the tour, ends it when it says its n-th line, and answers how many lines were said. */
async function endAt(n: number): Promise<{ said: number; thrown: unknown; reason: unknown; abandoned: number }> {
  const { logger } = recordingLogger();
  const host = await Host.open('memory:', { logger });
  const ending = new AbortController();
  let said = 0;
  const narrator = new Narrator(() => {
    if (++said === n) ending.abort(new Error('told to end'));
  });
  const thrown: unknown = await tour(host, await temporaryFolder(), narrator, ending.signal).catch(
    (error: unknown) => error,
  );
  const { abandoned } = await host.shutdown();
  return { said, thrown, reason: ending.signal.reason, abandoned: abandoned.length };
}

test('told to end at whichever line, the tour stops soon and holds no build', async () => {
  const { said: all, thrown } = await endAt(Number.POSITIVE_INFINITY);
  expect(thrown).toBeUndefined();
  expect(all).toBeGreaterThan(20);
  const stopped: number[] = [];
  for (let n = 1; n <= all; n++) {
    const started = performance.now();
    const ended = await endAt(n);
    // A build that is held would be waited for until the grace of the queue is over.
    expect([n, ended.abandoned, performance.now() - started < 10_000]).toEqual([n, 0, true]);
    if (ended.thrown === ended.reason) stopped.push(n);
    else expect([n, ended.thrown]).toEqual([n, undefined]);
  }
  // Only what is said after the last step comes too late to stop anything.
  expect(stopped.length).toBeGreaterThan(all - 5);
});
