/** A maintainer that kills itself at the n-th file it deletes: `node --import tsx sweep-kill-child.ts FILE DIR N WHEN ROUND`. */
import { fileBlobs } from '../src/artifacts/files.js';
import { open } from '../src/index.js';
import { createSystem } from '../src/system.js';

const [file = '', dir = '', n = '0', when = 'before', round = '0'] = process.argv.slice(2);
// A day later all that has ended is due to go, and a minute later the term of the one before is over.
const clock = { now: () => new Date(Date.now() + 25 * 3_600_000 + Number(round) * 60_000) };
const blobs = await fileBlobs(dir, createSystem(clock));
let deleted = 0;
const queue = await open(`sqlite:${file}?synchronous=normal`, {
  clock,
  artifacts: {
    blobs: {
      ...blobs,
      async delete(id) {
        deleted += 1;
        if (deleted === Number(n) && when === 'before') process.kill(process.pid, 'SIGKILL');
        await blobs.delete(id);
        if (deleted === Number(n) && when === 'after') process.kill(process.pid, 'SIGKILL');
      },
    },
  },
});
await queue.sweep();
await queue.close();
