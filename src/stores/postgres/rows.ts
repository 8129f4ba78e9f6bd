/** Jobs as the functions give them out. */
import type { State } from '../../core/job.js';
import type { StoredJob } from '../../core/store.js';

type Fields = readonly (string | number | null)[];

/** The place of `dueAt` among the fields. */
export const dueAtField = 31;

/** What job_text of sql/find.ts made. */
export function jobIn(text: string): StoredJob {
  const fields = JSON.parse(text) as Fields;
  return {
    seq: fields[0] as number,
    id: fields[1] as string,
    type: fields[2] as string,
    queue: fields[3] as string,
    state: fields[4] as State,
    priority: fields[5] as number,
    input: fields[6] as string,
    result: fields[7] as string | null,
    error: fields[8] as string | null,
    attempts: fields[9] as number,
    maxAttempts: fields[10] as number,
    stalls: fields[11] as number,
    subject: fields[12] as string | null,
    key: fields[13] as string | null,
    exclusiveKey: fields[14] as string | null,
    source: fields[15] as string | null,
    metadata: fields[16] as string | null,
    policy: fields[17] as string,
    progress: fields[18] as string | null,
    memo: fields[19] as string | null,
    retryOf: fields[20] as string | null,
    ownedBy: fields[21] as string | null,
    cancelAt: fields[22] as number | null,
    cancelReason: fields[23] as string | null,
    heldUntil: fields[24] as number | null,
    heldReason: fields[25] as string | null,
    createdAt: fields[26] as number,
    scheduledFor: fields[27] as number,
    startedAt: fields[28] as number | null,
    completedAt: fields[29] as number | null,
    expiresAt: fields[30] as number | null,
    dueAt: fields[dueAtField] as number | null,
    epoch: fields[32] as number,
  };
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
    seq: Number(seqList[index]),
    id,
    type: type!,
    queue: queue!,
    state: 'processing',
    priority,
    input: inputList[index]!,
    result: null,
    error: null,
    attempts: 1,
    maxAttempts,
    stalls: 0,
    subject: null,
    key: null,
    exclusiveKey: null,
    source: null,
    metadata: null,
    policy: policy!,
    progress: null,
    memo: null,
    retryOf: null,
    ownedBy: null,
    cancelAt: null,
    cancelReason: null,
    heldUntil: null,
    heldReason: null,
    createdAt: Number(createdList[index]),
    scheduledFor: Number(dueList[index]),
    startedAt: at,
    completedAt: null,
    expiresAt: null,
    dueAt,
    epoch,
  }));
}

/** The strict order of a claim. */
export function inOrder(a: StoredJob, b: StoredJob): number {
  return a.priority - b.priority || a.scheduledFor - b.scheduledFor || a.seq - b.seq;
}
