// A clock that was set back is told by health, for as long as it is behind what the last claim has seen.
import { expect, test } from 'vitest';
import { defineJob, open } from '../src/index.js';
import { type EngineName, emptyStore } from './engines.js';
import { handClock, hour, minute } from './lifecycle-support.js';
import { closedAfterwards } from './support.js';

const job = defineJob<number, number>('job', { run: ({ input }) => input });

test.each<EngineName>(['memory', 'sqlite', 'redis'])('a clock that was set back is warned of (%s)', async (engine) => {
  const clock = handClock();
  const { connect } = await emptyStore[engine]();
  const queue = closedAfterwards(await open(connect(), { clock }));
  await queue.enqueue(job, 1);
  await queue.runUntilIdle([job]);
  const codes = async (): Promise<string[]> => (await queue.health()).warnings.map(({ code }) => code);
  expect(await codes()).toEqual([]);
  clock.at -= hour;
  const { ok, warnings } = await queue.health();
  expect(ok).toBe(true);
  expect(warnings).toMatchObject([{ code: 'CLOCK_BACK', message: expect.stringContaining('3600 s behind') }]);
  clock.at += hour + minute;
  expect(await codes()).toEqual([]);
});
