import { randomBytes, randomUUID } from 'node:crypto';
import {
  type Context,
  defineJob,
  type Enqueued,
  type Job,
  LastoutError,
  type Outcome,
  type Queue,
  type Worker,
} from 'lastout';
import { type Config, slotWaitMs } from './config.js';
import { type Diagram, inputHash } from './diagram.js';

export interface RenderJob {
  readonly id: string;
  readonly status: 'pending' | 'rendering' | 'completed' | 'failed';
  readonly shortlink: string | null;
  readonly error: string | null;
  /** `BACKPRESSURE`, `TIMEOUT` and the like, for whoever decides by it. */
  readonly errorCode: string | null;
  readonly createdAt: Date;
  readonly startedAt: Date | null;
  readonly completedAt: Date | null;
}

export interface Rendered {
  readonly shortlink: string;
}

/** A job that is this process's own until it ends. */
export interface ClaimedJob {
  readonly id: string;
  readonly diagram: Diagram;
  readonly inputHash: string;
  /** Made by `createHere`. */
  readonly here: boolean;
  /** Aborts when the job is cancelled, removed, or taken away by a shutdown that does not wait any longer. */
  readonly signal: AbortSignal;
  readonly artifact: Context<Diagram>['artifact'];
}
export type Process = (job: ClaimedJob) => Promise<Rendered | Outcome>;

/** The job store of the processor: what lastout stores, in the words of the renderer. */
export interface JobStore {
  create(diagram: Diagram): Promise<Enqueued<Rendered>>;
  /** A job that this server takes and no other, before those that anybody may take. */
  createHere(diagram: Diagram): Promise<Enqueued<Rendered>>;
  /** Null: unknown, removed, or no id at all. */
  get(id: string): Promise<RenderJob | null>;
  /** Resolves when the job is completed or failed. */
  wait(id: string, signal?: AbortSignal): Promise<RenderJob>;
  /** Takes the oldest pending jobs, marks them `rendering` in the same step, and hands each to exactly one process. */
  work(process: Process, concurrency: number): Promise<Worker>;
  /** Removes what is past its retention, now; else it goes every JOB_CLEANUP_INTERVAL_MS by itself. */
  cleanup(): Promise<number>;
}

/** A dead process is noticed after this time, and its jobs are rendered by the next one. */
const claim = { lease: '10s', heartbeat: '2s' } as const;

export function createJobStore(queue: Queue, config: Config): JobStore {
  const here = `here-${randomBytes(8).toString('hex')}`;
  const define = (process?: Process) =>
    defineJob<Diagram, Rendered>('render', {
      subject: diagramSubject,
      // A second request for the same diagram joins the pending job; beside a running one it waits for its output.
      deduplication: 'skip',
      deduplicationKey: inputHash,
      exclusiveKey: inputHash,
      // A failed rendering is final: the same text would fail again. A crash is no attempt.
      attempts: 1,
      // The output belongs to the job, so the job stays at least as long as its short link was promised.
      keep: { completed: Math.max(config.jobRetentionMs, config.cacheTtlMs) },
      ...(process && {
        run: ({ input, job, signal, artifact }) =>
          process({
            id: job.id,
            diagram: input,
            inputHash: inputHash(input),
            here: job.queue === here,
            signal,
            artifact,
          }),
      }),
    });
  const render = define();

  return {
    create: (diagram) => queue.enqueue(render, diagram),
    createHere: (diagram) =>
      queue.enqueue(render, diagram, {
        queue: here,
        priority: -1,
        // It goes with this server, so nobody joins it: after a crash it is not rendered but expires.
        ttl: slotWaitMs(config),
        deduplication: 'none',
        // It has a place in the slots, so it does not stand behind a job either.
        exclusiveKey: randomUUID(),
      }),
    async get(id) {
      try {
        const job = await queue.get(render, id);
        return job && toRenderJob(job);
      } catch (error) {
        // No id at all, or that of a job of another type.
        if (error instanceof LastoutError && ['INVALID_ID', 'JOB_NOT_FOUND'].includes(error.code)) return null;
        throw error;
      }
    },
    wait: async (id, signal) => toRenderJob(await queue.wait(render, id, signal && { signal })),
    work: (process, concurrency) =>
      queue.work([define(process)], {
        concurrency,
        queues: ['default', here],
        poll: config.jobPollIntervalMs,
        ...claim,
      }),
    cleanup: async () => (await queue.sweep()).removed,
  };
}

export function diagramSubject(diagram: Diagram): string {
  return `diagram:${inputHash(diagram)}`;
}

const statusOf = {
  pending: 'pending',
  processing: 'rendering',
  completed: 'completed',
  failed: 'failed',
  cancelled: 'failed',
  expired: 'failed',
} as const;

function toRenderJob(job: Job<Diagram, Rendered>): RenderJob {
  const { id, state, result, error, createdAt, startedAt, completedAt } = job;
  return {
    id,
    status: statusOf[state],
    shortlink: result?.shortlink ?? null,
    error: error?.message ?? null,
    errorCode: error?.code ?? null,
    createdAt,
    startedAt,
    completedAt,
  };
}
