import { type Enqueued, type Job, type JobType, open, type OpenOptions, type Queue, type Worker } from 'lastout';

export interface CleanupConfig {
  /** Memory limit. */
  readonly maxStoredJobs: number;
  readonly jobRetentionMs: number;
  readonly cleanupIntervalMs: number;
  /** Accurate retention: from `completedAt`; false: from `createdAt`. */
  readonly useCompletedTime: boolean;
}

export const defaultConfig: CleanupConfig = {
  maxStoredJobs: 1000,
  jobRetentionMs: 24 * 60 * 60 * 1000,
  cleanupIntervalMs: 60 * 60 * 1000,
  useCompletedTime: true,
};

export interface QueueStats {
  readonly queued: number;
  readonly running: number;
  readonly completed: number;
  readonly failed: number;
  readonly total: number;
  /** Stored jobs above `maxStoredJobs`. If it stays above 0 after a cleanup, they are all queued or running. */
  readonly overLimit: number;
  readonly memoryUsageMB: number;
}

/** Jobs in memory that do not pile up: what has ended goes after a while, and the files that it left go before it. */
export class InMemoryJobQueue implements AsyncDisposable {
  private constructor(
    readonly queue: Queue,
    readonly config: CleanupConfig,
  ) {}

  /** `options` are lastout's: where artifacts are kept, who logs, which clock. The cleanup is started here. */
  static async open(
    config: Partial<CleanupConfig> = {},
    options: Omit<OpenOptions, 'cleanup'> = {},
  ): Promise<InMemoryJobQueue> {
    const cleanup = { ...defaultConfig, ...config };
    const jobs = new InMemoryJobQueue(await open('memory:', { ...options, cleanup }), cleanup);
    jobs.startPeriodicCleanup();
    return jobs;
  }

  /** A second call starts no second timer, and the timer keeps no process alive. */
  startPeriodicCleanup(): void {
    this.queue.startPeriodicCleanup();
  }

  /** Resolves when a cleanup under way has ended. */
  stopPeriodicCleanup(): Promise<void> {
    return this.queue.stopPeriodicCleanup();
  }

  /** Identifies what is to go, deletes its artifacts, removes it from memory, logs how many. */
  async cleanup(): Promise<{ removed: number }> {
    const { removed } = await this.queue.sweep();
    return { removed };
  }

  add<I, R>(type: JobType<I, R>, input: I): Promise<Enqueued<R>> {
    return this.queue.enqueue(type, input);
  }

  /** Undefined: there is none, or not any more. */
  async get(id: string): Promise<Job | undefined> {
    return (await this.queue.get(id)) ?? undefined;
  }

  work<I, R>(types: readonly JobType<I, R>[], concurrency = 2): Promise<Worker> {
    return this.queue.work(types, { concurrency });
  }

  async stats(): Promise<QueueStats> {
    const { pending, processing, completed, failed, cancelled, expired } = (await this.queue.stats()).total;
    const ended = { completed, failed: failed + cancelled + expired };
    const total = pending + processing + ended.completed + ended.failed;
    const overLimit = Math.max(0, total - this.config.maxStoredJobs);
    const memoryUsageMB = Math.round(process.memoryUsage().heapUsed / 1024 / 1024);
    return { queued: pending, running: processing, ...ended, total, overLimit, memoryUsageMB };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.queue.close();
  }
}
