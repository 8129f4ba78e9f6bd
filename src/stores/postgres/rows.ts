/** Jobs as the functions give them out. */
import { jobReader, plainStored, storedNames } from '../../core/columns.js';
import type { StoredJob } from '../../core/store.js';

const read = jobReader(storedNames);

/** The place of `dueAt` among the fields. */
export const dueAtField = storedNames.indexOf('dueAt');

/** What job_text of sql/find.ts made. */
export function jobIn(text: string): StoredJob {
  return read(JSON.parse(text) as readonly unknown[]);
}

/** The claim that a row belongs to. */
export interface Under {
  readonly epoch: number;
  readonly at: number;
  readonly dueAt: number;
}

/** Plain jobs that were claimed and have all but their id and input in common; see claimed_rows of sql/claim.ts. */
export function plainJobsIn(row: readonly unknown[], { epoch, at, dueAt }: Under): StoredJob[] {
  const [, seqs, ids, created, due, inputs, type, queue, ranks, policy] = row as readonly string[];
  const idList = ids!.split(',');
  const seqList = seqs!.split(',');
  const createdList = created!.split(',');
  const dueList = due!.split(',');
  const inputList = inputs!.split('\n');
  const [priority, maxAttempts] = ranks!.split(',').map(Number) as [number, number];
  return idList.map((id, index) => ({
    ...plainStored,
    seq: Number(seqList[index]),
    id,
    type: type!,
    queue: queue!,
    priority,
    input: inputList[index]!,
    maxAttempts,
    policy: policy!,
    createdAt: Number(createdList[index]),
    scheduledFor: Number(dueList[index]),
    startedAt: at,
    dueAt,
    epoch,
  }));
}

/** The strict order of a claim. */
export function inOrder(a: StoredJob, b: StoredJob): number {
  return a.priority - b.priority || a.scheduledFor - b.scheduledFor || a.seq - b.seq;
}
