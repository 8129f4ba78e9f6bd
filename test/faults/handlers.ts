/** The one job type of all cells: its input says how the handler behaves. Every execution is in the ledger. */
import { cancel, type Context, defineJob, fail, type JobType, snooze } from '../../src/index.js';
import type { Execution, Process, World } from './world.js';

export type How =
  | 'return'
  | 'throw once'
  | 'throw'
  | 'snooze once'
  | 'fail'
  | 'cancel'
  | 'obey the time limit'
  | 'ignore the time limit'
  | 'talk'
  | 'take long'
  | 'hold'
  | 'enqueue';

export interface Task {
  readonly mark: string;
  readonly how: How;
}

export function jobOf(world: World, process: Process): JobType<Task, unknown> {
  return defineJob<Task, unknown>('job', {
    attempts: 2,
    backoff: { type: 'fixed', base: '1s', jitter: 0 },
    async run(context) {
      const execution = world.began(process, context.job);
      try {
        const value = await behave(world, process, context, execution);
        execution.outcome = 'returned';
        return value;
      } catch (error) {
        execution.outcome = 'threw';
        throw error;
      } finally {
        execution.endedAt = world.clock.monotonic();
      }
    },
  });
}

/** What is returned names the claim, so that a stored result tells whose it is. */
async function behave(world: World, process: Process, context: Context<Task>, own: Execution): Promise<unknown> {
  const { input, job, signal } = context;
  const { epoch } = job;
  switch (input.how) {
    case 'return':
      return epoch;
    case 'throw once':
      if (job.attempts === 1) throw new Error('the first attempt fails');
      return epoch;
    case 'throw':
      throw new Error('every attempt fails');
    case 'snooze once':
      return world.executions.some((earlier) => earlier !== own && earlier.id === job.id) ? epoch : snooze('1s');
    case 'fail':
      return fail('no');
    case 'cancel':
      return cancel('no');
    case 'obey the time limit':
      await aborted(signal);
      throw signal.reason;
    case 'ignore the time limit':
      own.ignores = true;
      await world.over;
      return epoch;
    case 'talk':
      context.log('began');
      context.progress(50);
      await process.wait(150);
      context.log('went on');
      return epoch;
    case 'take long':
      await process.wait(15_000, signal);
      signal.throwIfAborted();
      return epoch;
    case 'hold':
      await Promise.race([world.released, aborted(signal)]);
      signal.throwIfAborted();
      return epoch;
    case 'enqueue':
      await process.queue.enqueue('job', { mark: 'child', how: 'return' }, { id: `${job.id}-child` });
      return epoch;
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}
