import { defineJob, type Queue } from 'lastout';
import { type ContainerRepository, type DockerClient, type LeaseRepository, leaseKey } from './domain.js';
import type { AppLogger } from './logger.js';
import type { Metrics } from './metrics.js';

export interface CleanupParts {
  readonly queue: Queue;
  readonly leaseRepository: LeaseRepository;
  readonly containerRepository: ContainerRepository;
  readonly dockerClient: DockerClient;
  readonly logger: AppLogger;
  readonly metrics: Metrics;
  readonly intervalMs: number;
  /** How long the lock outlives an instance that died with it. */
  readonly lockMs: number;
  readonly clock: CleanupClock;
}

export interface CleanupClock {
  now(): Date;
  /** Resolves after that time, or at once when the signal aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

const cleanupLock = 'cleanup-lock';
export const maxRetries = 3;
/** How many containers are cleaned up at once: a slow one holds up nobody but those behind it. */
const parallel = 8;

type Step = 'stop' | 'remove' | 'repository' | 'lease';

/**
 * The background worker that removes containers whose lease has expired. It belongs to no request: every tick of a clock that
 * all instances share is one job, which one of them takes under the lock. An instance that dies with it is replaced.
 */
export class CleanupWorker {
  private running: { stop(): Promise<unknown> } | null = null;
  /** Aborts what only waits; a step that is under way may end. */
  private stopping = new AbortController();

  constructor(private readonly parts: CleanupParts) {}

  async start(): Promise<void> {
    const { queue, intervalMs, lockMs, logger } = this.parts;
    const tick = defineJob<null, { cleaned: number; failed: number }>('cleanup', {
      queue: 'cleanup',
      exclusiveKey: cleanupLock,
      // A tick that still waits is enough: it will find whatever has expired by then.
      deduplication: 'skip',
      attempts: 1,
      keep: { count: 60 },
      run: ({ signal }) => this.cleanupExpiredContainers(signal),
    });
    this.stopping = new AbortController();
    await queue.schedule('cleanup', tick, null, { every: intervalMs });
    this.running = await queue.work([tick], { concurrency: 1, lease: lockMs });
    logger.info('cleanup worker started', { interval_ms: intervalMs });
  }

  /** No container is begun any more; those that are left are on record for the next tick, of this or another instance. */
  async stop(): Promise<void> {
    const { running } = this;
    if (!running) return;
    this.running = null;
    this.stopping.abort();
    await running.stop();
    this.parts.logger.info('cleanup worker stopped');
  }

  async cleanupExpiredContainers(signal: AbortSignal): Promise<{ cleaned: number; failed: number }> {
    const { leaseRepository, logger } = this.parts;
    let expired: readonly string[];
    try {
      expired = await leaseRepository.getExpiredLeases();
    } catch (error) {
      logger.error('failed to query expired leases', { error: messageOf(error) });
      return { cleaned: 0, failed: 0 };
    }
    if (expired.length === 0) return { cleaned: 0, failed: 0 };
    logger.info('cleaning up expired containers', { count: expired.length });
    const waiting = [...expired];
    let cleaned = 0;
    const oneByOne = async (): Promise<void> => {
      for (let id = waiting.shift(); id !== undefined && !this.isOver(signal); id = waiting.shift())
        if (await this.cleanupContainer(id, signal)) cleaned += 1;
    };
    await Promise.all(Array.from({ length: Math.min(parallel, expired.length) }, oneByOne));
    return { cleaned, failed: expired.length - cleaned };
  }

  /** Up to three times from the first step on, waiting 1, 4 and 9 seconds. What is left then stays on record for the next tick. */
  async cleanupContainer(containerID: string, signal: AbortSignal): Promise<boolean> {
    const { leaseRepository, logger, metrics, clock } = this.parts;
    let failure: Failure | null = null;
    for (let attempt = 1; attempt <= maxRetries && !this.isOver(signal); attempt++) {
      failure = await this.performCleanup(containerID, attempt, signal);
      metrics.cleanup('worker', failure ? 'failure' : 'success');
      if (!failure) return true;
      await clock.sleep(attempt * attempt * 1_000, AbortSignal.any([signal, this.stopping.signal]));
    }
    if (this.isOver(signal) || !failure) return false;
    logger.error('cleanup failed, it is tried again at the next tick', {
      container_id: containerID,
      step: failure.step,
      error: failure.reason,
    });
    if (failure.step === 'lease') await this.callForHelp(leaseRepository, containerID, failure.reason);
    return false;
  }

  /** Null, or what failed: a step that fails ends the sequence. */
  async performCleanup(containerID: string, attempt: number, signal: AbortSignal): Promise<Failure | null> {
    const { dockerClient, containerRepository, leaseRepository, logger, clock } = this.parts;
    const startedAt = clock.now().getTime();
    const steps: readonly (readonly [Step, () => Promise<void>])[] = [
      ['stop', () => dockerClient.stopContainer(containerID, signal)],
      ['remove', () => dockerClient.removeContainer(containerID, signal)],
      ['repository', () => containerRepository.delete(containerID)],
      ['lease', () => leaseRepository.deleteLease(leaseKey(containerID))],
    ];
    const failure = await firstFailure(steps);
    logger.cleanup({
      container_id: containerID,
      action: 'cleanup',
      status: failure ? 'failure' : 'success',
      attempt,
      duration_ms: clock.now().getTime() - startedAt,
    });
    if (failure) logger.warn('cleanup step failed', { container_id: containerID, attempt, ...failure });
    return failure;
  }

  private isOver(signal: AbortSignal): boolean {
    return signal.aborted || this.stopping.signal.aborted;
  }

  private async callForHelp(leases: LeaseRepository, containerID: string, reason: string): Promise<void> {
    try {
      await leases.markForManualCleanup(containerID, reason);
    } catch (error) {
      this.parts.logger.error('could not be marked for manual cleanup', {
        container_id: containerID,
        reason,
        error: messageOf(error),
      });
    }
  }
}

export interface Failure {
  readonly step: Step;
  readonly reason: string;
}

async function firstFailure(steps: readonly (readonly [Step, () => Promise<void>])[]): Promise<Failure | null> {
  for (const [step, work] of steps) {
    try {
      await work();
    } catch (error) {
      return { step, reason: messageOf(error) };
    }
  }
  return null;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
