/** What a container is here, and the three parts that provisioning and cleanup are made of. */

export interface ContainerRecord {
  /** The id that the engine gave it. */
  readonly id: string;
  readonly imageType: string;
  readonly cpuMilli: number;
  readonly memoryMB: number;
  readonly volumeSizeMB: number;
  readonly durationMinutes: number;
  readonly createdAt: string;
  readonly expiryAt: string;
}

/** The value of `lease:{containerID}`. */
export interface LeaseRecord {
  readonly containerID: string;
  readonly expiryTime: string;
  readonly imageType: string;
  readonly durationMinutes: number;
}

export interface ContainerRepository {
  save(container: ContainerRecord): Promise<void>;
  get(id: string): Promise<StoredContainer | null>;
  list(): Promise<readonly StoredContainer[]>;
  /** It reads as terminated for a while, and is gone then. Deleting what is gone is fine. */
  delete(id: string): Promise<void>;
}

export interface StoredContainer extends ContainerRecord {
  readonly terminated: boolean;
}

export interface LeaseRepository {
  /** `guard` names lastout's own lease on the container, which ends with this one. */
  createLease(lease: LeaseRecord, guard: string): Promise<void>;
  /** The ids of containers whose time is over, the longest overdue first. */
  getExpiredLeases(): Promise<readonly string[]>;
  /** `key` is `lease:{containerID}`. Deleting what is gone is fine. */
  deleteLease(key: string): Promise<void>;
  /** The container is gone and its lease cannot be deleted: somebody has to look. */
  markForManualCleanup(containerID: string, reason: string): Promise<void>;
  needingManualCleanup(): Promise<readonly ManualCleanup[]>;
}

export interface ManualCleanup {
  readonly containerID: string;
  readonly needsManualCleanup: true;
  readonly reason: string;
  readonly since: string;
}

/** What the cleanup asks of an engine. Already stopped and already gone are fine; not reached and not allowed are not. */
export interface DockerClient {
  stopContainer(id: string, signal: AbortSignal): Promise<void>;
  removeContainer(id: string, signal: AbortSignal): Promise<void>;
}

export const leaseKey = (containerID: string): string => `lease:${containerID}`;

/** The engine or the store did not do its part; asking again may help. */
export class Unavailable extends Error {}
