import { expect, test } from 'vitest';
import { inFiles, inMemory, type Place } from '../src/places.js';
import { Tour } from '../src/tour.js';
import { filesIn, temporaryFolder } from './support.js';

/** A short tour, which is told to end when it says its n-th line. */
async function endAt(place: Place, n: number): Promise<{ lines: string[]; thrown: unknown; reason: unknown }> {
  const ending = new AbortController();
  const lines: string[] = [];
  const say = (text: string): void => {
    if (lines.push(text) === n) ending.abort(new Error('told to end'));
  };
  const thrown: unknown = await Tour.run(place, say, ending.signal, async (tour) => {
    await tour.writeDossiers(3, 'Dossiers');
    await tour.ping(5, 'Small ones');
    await tour.pass(25, 'A day');
  }).catch((error: unknown) => error);
  return { lines, thrown, reason: ending.signal.reason };
}

for (const name of ['memory', 'files'] as const) {
  test(`told to end at whichever line, the tour stops and closes its queue (artifacts in ${name})`, async () => {
    const dir = await temporaryFolder();
    const place = name === 'memory' ? inMemory : inFiles(dir);
    const { lines: all, thrown } = await endAt(place, Number.POSITIVE_INFINITY);
    expect(thrown).toBeUndefined();
    expect(all.at(-1)).toContain('created = released + stored');
    const lastStep = all.indexOf('A day') + 1;
    for (let n = 1; n <= lastStep; n++) {
      const { lines, thrown, reason } = await endAt(place, n);
      expect([n, thrown]).toEqual([n, reason]);
      expect(lines.at(-1)).not.toContain('Good night');
      const before = (await filesIn(dir)).size;
      // Nothing runs on: no file comes any more.
      await new Promise((resolve) => setImmediate(resolve));
      expect((await filesIn(dir)).size).toBe(before);
    }
  });
}
