/** The check at the end of a test: no live work, no lapsed claim, nothing past its retention. */
import type { Queue } from '../surface.js';

export async function expectNothingLeft(queue: Queue): Promise<void> {
  const { total, leftBehind } = await queue.stats();
  const faults: string[] = [];
  if (total.pending > 0) faults.push(`${total.pending} pending`);
  if (total.processing > 0) faults.push(`${total.processing} processing`);
  if (leftBehind > 0) faults.push(`${leftBehind} left behind`);
  if (faults.length === 0) return;
  const live = await queue.find({ state: ['pending', 'processing'], limit: 10 });
  const examples = live.items.map((job) => `${job.id} (${job.type}, ${job.state})`).join(', ');
  throw new Error(`Something is left: ${faults.join(', ')}${examples === '' ? '' : `; for example ${examples}`}`);
}
