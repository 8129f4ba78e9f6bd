/** A worker process of the second act: `worker.ts FILE`. */
import { handle, open } from 'lastout';
import { workFor } from './door.js';
import { report } from './jobs.js';
import type { Word } from './killed-worker.js';

const say = (word: Word): void => void process.send!(word);

const queue = await open(`sqlite:${process.argv[2]}`);
await queue.work(
  [
    handle(report, async ({ input, job, progress }) => {
      for (let page = 1; page <= input.pages; page++) {
        progress((100 * page) / input.pages);
        await workFor(60);
        if (page !== input.pages / 2) continue;
        say({ halfway: job.id, stalls: job.stalls });
        // The first run waits here for its end, so that it is killed in the middle however fast the machine is.
        if (job.stalls === 0) await new Promise(() => undefined);
      }
      return { pages: input.pages, pid: process.pid };
    }),
  ],
  // A service would keep the default of 30 s.
  { lease: '1s' },
);
// The one that started it may have gone before there was anybody to hear of it.
process.once('disconnect', () => void queue.close({ grace: 0 }));
if (process.connected) say('ready');
else await queue.close({ grace: 0 });
