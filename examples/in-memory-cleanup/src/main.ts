import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endOnSignals } from './ending.js';
import { inFiles, inMemory } from './places.js';
import { Tour } from './tour.js';

const ending = endOnSignals();
const say = (text: string): void => void process.stdout.write(`${text}\n`);

try {
  const folder = makeFolder();
  await Tour.run(inMemory, say, ending, async (tour) => {
    tour.showPolicies();
    await tour.writeDossiers(20, 'The first dossiers: each leaves three sections and a cached result');
    await tour.pass(12, 'Half a day later they are all there');
    await tour.writeDossiers(5, 'Five more');
    await tour.pass(13, 'After 25 hours the first ones go, artifacts first');
    await tour.ping(1_100, 'Far more small jobs than the limit of 1000');
    await tour.wait('No hour had to pass: the oldest went at once');
  });
  await Tour.run(inFiles(folder), say, ending, async (tour) => {
    await tour.writeDossiers(20, 'Once more, as files');
    await tour.pass(25, 'After 25 hours, files first');
  });
} catch (error) {
  if (error !== ending.reason) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode ??= 1;
  }
}

function makeFolder(): string {
  try {
    const folder = mkdtempSync(join(tmpdir(), 'lastout-in-memory-'));
    // Whatever ends the process, a crash too, this is heard.
    process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
    return folder;
  } catch (error) {
    throw new Error(`TMPDIR: ${(error as Error).message}`, { cause: error });
  }
}
