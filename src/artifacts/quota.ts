/** How many bytes may still come: of one job, and of all. What is on its way counts from its first byte. */
import type { BlobStore } from '../core/blobs.js';
import { LastoutError } from '../core/errors.js';

export interface ArtifactLimits {
  readonly maxBytes: number;
  readonly maxBytesPerJob: number;
}

export const defaultLimits = {
  memory: { maxBytes: 256 * 1024 * 1024, maxBytesPerJob: 64 * 1024 * 1024 },
  files: { maxBytes: 10 * 1024 ** 3, maxBytesPerJob: 1024 ** 3 },
} as const satisfies Record<string, ArtifactLimits>;

/** One artifact on its way. */
export interface Allowance {
  /** The most that it may have. */
  readonly maxBytes: number;
  take(bytes: number): void;
  /** `kept`: its job has it from now on. Until then what it took counts as being on its way. */
  done(how: 'kept' | 'undone'): void;
}

export function quotaOf(blobs: BlobStore, { maxBytes, maxBytesPerJob }: ArtifactLimits) {
  let onTheirWay = 0;
  /** All that was ever kept here: what came after the blobs were counted is not in their sum. */
  let landed = 0;
  const ofJob = new Map<string, number>();

  return {
    /** `has` tells what the job keeps now, besides the artifact that this one takes the place of. */
    async allow(jobId: string, has: () => number): Promise<Allowance> {
      const landedBefore = landed;
      const used = await blobs.used();
      let taken = 0;
      const left = (): { total: number; job: number } => ({
        total: maxBytes - used - (landed - landedBefore) - onTheirWay,
        job: maxBytesPerJob - has() - (ofJob.get(jobId) ?? 0),
      });
      const add = (bytes: number): void => {
        taken += bytes;
        onTheirWay += bytes;
        const sum = (ofJob.get(jobId) ?? 0) + bytes;
        if (sum === 0) ofJob.delete(jobId);
        else ofJob.set(jobId, sum);
      };
      const { total, job } = left();
      return {
        maxBytes: Math.max(0, Math.min(total, job)),
        take(bytes) {
          const rest = left();
          if (bytes > rest.job) throw exceeded('of one job', maxBytesPerJob);
          if (bytes > rest.total) throw exceeded('in total', maxBytes);
          add(bytes);
        },
        done(how) {
          if (how === 'kept') landed += taken;
          add(-taken);
        },
      };
    },
  };
}

function exceeded(whose: string, max: number): LastoutError {
  const message = `The artifacts ${whose} may have ${max} bytes, and this one goes beyond; nothing of it was kept.`;
  return new LastoutError('ARTIFACT_QUOTA', message, { maxBytes: max });
}
