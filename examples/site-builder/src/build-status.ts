import type { Filter, Job, Page } from 'lastout';

export interface BuildStatus {
  /** A build waits for its turn: it has not read anything yet, so it will contain every change up to now. */
  readonly queued: boolean;
  readonly building: boolean;
  readonly lastSuccess: Job | null;
  readonly lastFailure: Job | null;
  /** The last five builds, newest first. */
  readonly recent: readonly Job[];
}

/** The queue knows all of this already, also after a restart: there is no second account of it that could drift. */
export async function readBuildStatus(
  find: (filter: Filter & { limit: number }) => Promise<Page<Job>>,
): Promise<BuildStatus> {
  const newest = async (state?: Job['state'], limit = 1): Promise<readonly Job[]> =>
    (await find({ type: 'site-build', limit, ...(state && { state }) })).items;
  const [pending, processing, completed, failed, recent] = await Promise.all([
    newest('pending'),
    newest('processing'),
    newest('completed'),
    newest('failed'),
    newest(undefined, 5),
  ]);
  return {
    queued: pending.length > 0,
    building: processing.length > 0,
    lastSuccess: completed[0] ?? null,
    lastFailure: failed[0] ?? null,
    recent,
  };
}
