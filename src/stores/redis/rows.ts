/** Jobs between their objects and the texts of the scripts (lua/rows.ts says how a row is stored, lua/view.ts how it is shown). */
import type { State } from '../../core/job.js';
import { systemQueue } from '../../core/names.js';
import { policyOf } from '../../core/policy.js';
import type { NewJob, StoredJob, Under } from '../../core/store.js';

/** What many jobs have in common, stored once. */
export interface Shape {
  readonly type: string;
  readonly queue: string;
  readonly maxAttempts: number;
  readonly policy: string;
  readonly source: string | null;
}

/** Longer jobs are never claimed ahead. */
const aheadTimeoutMs = 1_000;

export function shapeText({ type, queue, maxAttempts, policy, source }: Shape): string {
  const { timeoutMs, keep } = policyOf(policy);
  const ahead = timeoutMs === null || timeoutMs <= aheadTimeoutMs ? 'a' : '';
  const keeps = Object.keys(keep).length > 0 ? 'k' : '';
  return `${type}\0${queue}\0${maxAttempts}\0${ahead}${keeps}\0${policy}${source === null ? '' : `\0${source}`}`;
}

export function isSameShape(a: Shape, b: Shape): boolean {
  return (
    a.type === b.type &&
    a.queue === b.queue &&
    a.policy === b.policy &&
    a.maxAttempts === b.maxAttempts &&
    a.source === b.source
  );
}

function parseShape(text: string): Shape {
  const [type, queue, maxAttempts, , policy, ...source] = text.split('\0');
  return {
    type: type!,
    queue: queue!,
    maxAttempts: Number(maxAttempts),
    policy: policy!,
    source: source.length === 0 ? null : source.join('\0'),
  };
}

const parsed = new Map<string, Shape>();

/** Parsed once per text: a handful of them serve all jobs. */
function shapeIn(text: string): Shape {
  let shape = parsed.get(text);
  if (!shape) {
    if (parsed.size >= 1_000) parsed.clear();
    shape = parseShape(text);
    parsed.set(text, shape);
  }
  return shape;
}

export type Shapes = ReadonlyMap<string, Shape>;

/** `[number, text, number, text, …]` */
export function shapesIn(list: readonly string[]): Shapes {
  const shapes = new Map<string, Shape>();
  for (let i = 0; i < list.length; i += 2) shapes.set(list[i]!, shapeIn(list[i + 1]!));
  return shapes;
}

/** What the long way needs of a job besides its shape and input; what is left out is plain. */
export function jobText(job: NewJob, print: string | null): string {
  const { id, idGiven, priority, when, ttlMs, subject, key, exclusiveKey, deduplication, metadata, ownedBy, under } =
    job;
  return JSON.stringify({
    id,
    ...when,
    ...(idGiven && { given: true }),
    ...(print !== null && { print }),
    ...(priority !== 0 && { priority }),
    ...(ttlMs !== null && { ttlMs }),
    ...(subject !== null && { subject }),
    ...(key !== null && { key }),
    ...(exclusiveKey !== null && { exclusiveKey }),
    ...(deduplication !== 'none' && { deduplication }),
    ...(metadata !== null && { metadata }),
    ...(ownedBy !== null && { ownedBy }),
    ...(under !== null && { under: { ...underText(under), id: under.id } }),
  });
}

/** Epochs are texts to the scripts. */
export function underText({ epoch, owner }: Under): { readonly epoch: string; readonly owner: string } {
  return { epoch: String(epoch), owner };
}

/** A job that takes the short way: nothing stands in its way, and nobody looks for it by anything but its id and type. */
export function isPlain(job: NewJob): boolean {
  return (
    job.deduplication === 'none' &&
    job.queue !== systemQueue && // which are counted by their types
    !job.idGiven &&
    job.priority === 0 &&
    'inMs' in job.when &&
    job.when.inMs === 0 &&
    job.ttlMs === null &&
    job.subject === null &&
    job.key === null &&
    job.exclusiveKey === null &&
    job.metadata === null &&
    job.print === null &&
    job.ownedBy === null &&
    job.under === null &&
    !job.input.includes('\0') // it stands between two jobs
  );
}

export interface Hold {
  readonly epoch: number;
  readonly at: number;
  readonly dueAt: number;
}

/** `P shape:4 seq:10 createdAt:9 input`, just claimed. */
export function claimedPlain(id: string, text: string, shapes: Shapes, { epoch, at, dueAt }: Hold): StoredJob {
  const shape = shapes.get(text.slice(1, 5))!;
  const createdAt = Number.parseInt(text.slice(15, 24), 32);
  return {
    state: 'processing',
    dueAt,
    seq: Number.parseInt(text.slice(5, 15), 32),
    id,
    type: shape.type,
    queue: shape.queue,
    priority: 0,
    input: text.slice(24),
    result: null,
    error: null,
    attempts: 1,
    maxAttempts: shape.maxAttempts,
    stalls: 0,
    subject: null,
    key: null,
    exclusiveKey: null,
    source: shape.source,
    metadata: null,
    policy: shape.policy,
    progress: null,
    memo: null,
    retryOf: null,
    ownedBy: null,
    cancelAt: null,
    cancelReason: null,
    heldUntil: null,
    heldReason: null,
    createdAt,
    scheduledFor: createdAt,
    startedAt: at,
    completedAt: null,
    expiresAt: null,
    epoch,
  };
}

/** The columns of lua/view.ts. */
export type View = readonly (string | number | null)[];

export function jobIn(view: View, shapes: Shapes): StoredJob {
  const shape = shapes.get(view[2] as string)!;
  const text = (column: number): string | null => (view[column] as string | null) ?? null;
  const instant = (column: number): number | null => (view[column] as number | null) ?? null;
  return {
    state: view[3] as State,
    dueAt: instant(24),
    seq: view[0] as number,
    id: view[1] as string,
    type: shape.type,
    queue: shape.queue,
    priority: view[4] as number,
    input: view[5] as string,
    result: text(6),
    error: text(7),
    attempts: view[8] as number,
    maxAttempts: shape.maxAttempts,
    stalls: view[9] as number,
    subject: text(10),
    key: text(11),
    exclusiveKey: text(12),
    source: shape.source,
    metadata: text(13),
    policy: shape.policy,
    progress: text(14),
    memo: text(15),
    retryOf: text(16),
    ownedBy: text(26),
    cancelAt: instant(17),
    cancelReason: reasonIn(text(18)),
    heldUntil: instant(27),
    heldReason: text(28),
    createdAt: view[19] as number,
    scheduledFor: view[20] as number,
    startedAt: instant(21),
    completedAt: instant(22),
    expiresAt: instant(23),
    epoch: view[25] as number,
  };
}

/** A cancel request is stored as the error that it becomes. */
export function cancelError(reason: string): string {
  return JSON.stringify({ code: 'CANCELLED', message: reason });
}

export function orphanError(reason: string): string {
  return JSON.stringify({ code: 'ORPHANED', message: reason });
}

export function reasonIn(error: string | null): string | null {
  return error === null ? null : (JSON.parse(error) as { message: string }).message;
}
