/** `npm start`: three acts on one SQLite file, and a look into the file at the end. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { open } from 'lastout';
import { bulkImport } from './bulk-import.js';
import { cancelledSubject } from './cancelled-subject.js';
import { killedWorker } from './killed-worker.js';
import { openStage } from './stage.js';
import { type Found, readBack, verdict } from './verify.js';

const stage = openStage(process.stdout, process.env);
const folder = mkdtempSync(join(tmpdir(), 'lastout-demo-'));
const file = join(folder, 'jobs.db');
const removeFolder = (): void => rmSync(folder, { recursive: true, force: true });
process.once('SIGINT', () => {
  removeFolder();
  process.exit(130);
});

async function play(): Promise<Found> {
  const queue = await open(`sqlite:${file}`);
  const expected = [
    ...(await bulkImport(queue, stage)),
    ...(await killedWorker(queue, stage, file)),
    ...(await cancelledSubject(queue, stage)),
  ];
  await queue.close();
  return readBack(file, expected);
}

stage.title('lastout, the job queue that leaves nothing behind: one SQLite file, three processes');
try {
  const found = await play();
  removeFolder();
  const faults = [...found.faults, ...(existsSync(folder) ? [`the folder ${folder}`] : [])];
  const counts = Object.entries(found.byState).map(([state, n]) => `${n} ${state}`);
  stage.plain(`\nRead back from the file: ${found.finished} finished jobs (${counts.join(', ')}).`);
  const { lines, code } = verdict({ faults });
  for (const line of lines) stage.plain(line);
  process.exitCode = code;
} finally {
  removeFolder();
}
