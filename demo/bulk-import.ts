/** Act 1. Fifty-one changes ask for a build, and two builds are made: the second has what came while the first ran. */
import { handle, type Queue } from 'lastout';
import { createDoor, workFor } from './door.js';
import { siteBuild } from './jobs.js';
import type { Stage } from './stage.js';
import type { Expected } from './verify.js';

const site = { site: 'docs' };

export async function bulkImport(queue: Queue, stage: Stage, ending: AbortSignal): Promise<readonly Expected[]> {
  stage.act(1, 'Bulk import: each change asks for a build, a build that already waits is enough');
  let changes = 0;
  let built = 0;
  const ids: string[] = [];
  const change = async (): Promise<'created' | 'skipped'> => {
    changes += 1;
    const { id, outcome } = await queue.enqueue(siteBuild, site);
    if (outcome === 'created') ids.push(id);
    return outcome as 'created' | 'skipped';
  };

  stage.tell('+', `change 1: ${await change()}`, 'build 1 waits');
  let skipped = 0;
  for (let n = 2; n <= 49; n++) if ((await change()) === 'skipped') skipped += 1;
  stage.tell('·', `changes 2–49: skipped ${skipped} times`, 'build 1 still waits and will have read them all');

  const door = createDoor(ending);
  const worker = await queue.work(
    [
      handle(siteBuild, async ({ job }) => {
        const range = { from: built + 1, to: changes };
        built = changes;
        stage.tell('▶', `build ${ids.indexOf(job.id) + 1} starts`, `it reads changes ${range.from}–${range.to}`);
        await door.pass();
        await workFor(500);
        stage.tell('✓', `build ${ids.indexOf(job.id) + 1} is done`);
        return range;
      }),
    ],
    { concurrency: 1 },
  );
  await door.arrived;
  stage.tell('+', `change 50: ${await change()}`, 'build 1 has begun without it, so build 2 waits');
  stage.tell('·', `change 51: ${await change()}`, 'build 2 waits already');
  door.open();
  for (const id of ids) await queue.wait(id);
  await worker.stop();
  stage.sum(`${changes} changes, ${ids.length} builds`);
  return [
    { id: ids[0]!, type: 'site-build', state: 'completed', result: { from: 1, to: 49 } },
    { id: ids[1]!, type: 'site-build', state: 'completed', result: { from: 50, to: 51 } },
  ];
}
