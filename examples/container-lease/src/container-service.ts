import { randomUUID } from 'node:crypto';
import type { Lease, Queue } from 'lastout';
import type { CleanupClock, CleanupWorker } from './cleanup-worker.js';
import type { Engine } from './docker.js';
import type { ContainerRecord, ContainerRepository, LeaseRepository, StoredContainer } from './domain.js';
import { leaseKey, Unavailable } from './domain.js';
import type { AppLogger } from './logger.js';
import type { Metrics } from './metrics.js';
import type { ProvisionRequest } from './provision-request.js';

export interface ServiceParts {
  readonly queue: Queue;
  readonly engine: Engine;
  readonly containerRepository: ContainerRepository;
  readonly leaseRepository: LeaseRepository;
  readonly cleanupWorker: Pick<CleanupWorker, 'performCleanup'>;
  readonly logger: AppLogger;
  readonly metrics: Metrics;
  readonly clock: CleanupClock;
  /** How long after its expiry lastout's own lease ends a container that no tick has cleaned up. */
  readonly graceMs: number;
}

export type ContainerStatus = 'pending' | 'running' | 'exited' | 'error' | 'terminated';

export interface ContainerView {
  readonly id: string;
  readonly imageType: string;
  readonly status: ContainerStatus;
  readonly cost: number;
  readonly createdAt: string;
  readonly expiryAt: string;
  /** Seconds, never negative. */
  readonly expiresIn: number;
}

/** Until everything about a new container is on record, lastout's lease on it is this short: a crash costs minutes. */
const provisionMs = 2 * 60_000;

/** Of the engine: no slash, no dot, nothing that would mean something in an address. */
const idPattern = /^[A-Za-z0-9]{1,64}$/;

/** Stays until it is told to end, and then ends at once. */
const command = ['sh', '-c', 'trap "exit 0" TERM; echo "container ready"; while :; do sleep 3600 & wait $!; done'];

export class ContainerService {
  constructor(private readonly parts: ServiceParts) {}

  /** lastout's intent, then the container, then its record, then its lease. What fails on the way is undone. */
  async provision(request: ProvisionRequest): Promise<ContainerView> {
    const { clock, metrics } = this.parts;
    const startedAt = clock.now();
    const seconds = (): number => (clock.now().getTime() - startedAt.getTime()) / 1_000;
    try {
      const record = await this.create(request, startedAt);
      metrics.provision('success', seconds());
      return this.view({ ...record, terminated: false }, 'running');
    } catch (error) {
      metrics.provision('error', seconds());
      throw error;
    }
  }

  private async create(request: ProvisionRequest, createdAt: Date): Promise<ContainerRecord> {
    const { queue, engine, containerRepository, leaseRepository, graceMs } = this.parts;
    const { imageType, durationMinutes, cpuMilli, memoryMB, volumeSizeMB } = request;
    const guard = `provision:${randomUUID()}`;
    const spec = {
      Image: imageType,
      Cmd: command,
      HostConfig: {
        NanoCpus: cpuMilli * 1_000_000,
        Memory: memoryMB * 2 ** 20,
        // Without a name of its own: it goes with the container.
        ...(volumeSizeMB > 0 && { Mounts: [{ Type: 'volume', Target: '/data' }] }),
      },
    };
    const lease = await queue.lease(engine.containers, spec, { ttl: provisionMs, subject: guard });
    const { containerId: id } = lease.info as { containerId: string };
    const durationMs = durationMinutes * 60_000;
    const expiryAt = new Date(createdAt.getTime() + durationMs).toISOString();
    const record = { id, ...request, createdAt: createdAt.toISOString(), expiryAt };
    try {
      await containerRepository.save(record);
      await leaseRepository.createLease({ containerID: id, expiryTime: expiryAt, imageType, durationMinutes }, guard);
      await lease.renew(durationMs + graceMs);
    } catch (error) {
      await this.undo(id, lease);
      throw error;
    }
    return record;
  }

  /** Where this fails as well, lastout's own lease is over in two minutes, and the record's at its expiry. */
  private async undo(id: string, lease: Lease): Promise<void> {
    const { containerRepository, leaseRepository, logger } = this.parts;
    const steps = [
      () => lease.release(),
      () => containerRepository.delete(id),
      () => leaseRepository.deleteLease(leaseKey(id)),
    ];
    for (const step of steps)
      await step().catch((error: unknown) =>
        logger.warn('undoing a failed provision', { container_id: id, error: String(error) }),
      );
  }

  async list(): Promise<readonly ContainerView[]> {
    const { containerRepository, engine } = this.parts;
    const [records, states] = await Promise.all([containerRepository.list(), engine.states()]);
    return records.map((record) => this.view(record, statusOf(record, states)));
  }

  async isOnRecord(id: string): Promise<boolean> {
    return (await this.find(id)) !== null;
  }

  /** What can be no id of the engine is not even looked for. */
  private async find(id: string): Promise<StoredContainer | null> {
    return idPattern.test(id) ? this.parts.containerRepository.get(id) : null;
  }

  /** Null: never heard of, or forgotten. */
  async status(id: string): Promise<object | null> {
    const { leaseRepository, engine } = this.parts;
    const record = await this.find(id);
    if (!record) return null;
    const [states, manual] = await Promise.all([engine.states(), leaseRepository.needingManualCleanup()]);
    const { expiresIn: timeLeftSeconds, ...view } = this.view(record, statusOf(record, states));
    const mark = manual.find(({ containerID }) => containerID === id);
    return {
      ...view,
      timeLeftSeconds,
      error: view.status === 'error' ? 'the engine has no such container' : null,
      needsManualCleanup: mark !== undefined,
      ...(mark && { reason: mark.reason }),
    };
  }

  /** Before its time, by hand. False: there is no such container. */
  async delete(id: string, signal: AbortSignal): Promise<boolean> {
    const { cleanupWorker, metrics } = this.parts;
    const record = await this.find(id);
    if (!record || record.terminated) return false;
    const failure = await cleanupWorker.performCleanup(id, 1, signal);
    metrics.cleanup('manual', failure ? 'failure' : 'success');
    if (failure) throw new Unavailable(`${failure.step} failed: ${failure.reason}`);
    return true;
  }

  private view(record: StoredContainer, status: ContainerStatus): ContainerView {
    const { id, imageType, createdAt, expiryAt } = record;
    const left = Math.floor((Date.parse(expiryAt) - this.parts.clock.now().getTime()) / 1_000);
    return { id, imageType, status, cost: 0, createdAt, expiryAt, expiresIn: Math.max(0, left) };
  }
}

function statusOf({ id, terminated }: StoredContainer, states: ReadonlyMap<string, string>): ContainerStatus {
  if (terminated) return 'terminated';
  const state = states.get(id);
  if (state === undefined) return 'error';
  if (state === 'created') return 'pending';
  return state === 'running' ? 'running' : 'exited';
}
