/** `npm start`: three acts on one SQLite file, and a look into the file at the end. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { open } from 'lastout';
import { bulkImport } from './bulk-import.js';
import { cancelledSubject } from './cancelled-subject.js';
import { endOnSignals } from './ending.js';
import { killedWorker } from './killed-worker.js';
import { openStage } from './stage.js';
import { type Found, readBack, verdict } from './verify.js';

const ending = endOnSignals();
const stage = openStage(process.stdout, process.env);

stage.title('lastout, the job queue that leaves nothing behind: one SQLite file, three processes');
try {
  const folder = makeFolder();
  const found = await play(join(folder, 'jobs.db'));
  rmSync(folder, { recursive: true, force: true });
  const faults = [...found.faults, ...(existsSync(folder) ? [`the folder ${folder}`] : [])];
  const counts = Object.entries(found.byState).map(([state, n]) => `${n} ${state}`);
  stage.plain(`\nRead back from the file: ${found.finished} finished jobs (${counts.join(', ')}).`);
  const { lines, code } = verdict({ faults });
  for (const line of lines) stage.plain(line);
  process.exitCode ??= code;
} catch (error) {
  // Told to end, the acts break off where they are.
  if (!ending.aborted) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
}

async function play(file: string): Promise<Found> {
  const queue = await open(`sqlite:${file}`);
  try {
    ending.throwIfAborted();
    // What waits for the queue, and what it runs, ends with it.
    ending.addEventListener('abort', () => void queue.close({ grace: 0 }).catch(() => {}), { once: true });
    const expected = [
      ...(await bulkImport(queue, stage, ending)),
      ...(await killedWorker(queue, stage, file, ending)),
      ...(await cancelledSubject(queue, stage, ending)),
    ];
    await queue.close();
    return await readBack(file, expected);
  } finally {
    await queue.close({ grace: 0 });
  }
}

function makeFolder(): string {
  try {
    const folder = mkdtempSync(join(tmpdir(), 'lastout-demo-'));
    // Whatever ends the process, a crash too, this is heard.
    process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
    return folder;
  } catch (error) {
    throw new Error(`TMPDIR: ${(error as Error).message}`, { cause: error });
  }
}
