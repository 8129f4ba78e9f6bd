/** Jobs between their objects and the texts of the scripts (lua/rows.ts says how a row is stored, lua/view.ts how it is shown). */
import { type HeadName, jobReader, plainStored, rareColumns } from '../../core/columns.js';
import { systemQueue } from '../../core/names.js';
import { isAlikeOn, isPlainOn } from '../../core/plain.js';
import { policyOf } from '../../core/policy.js';
import type { NewJob, StoredJob, Under } from '../../core/store.js';
import { viewNames } from './lua/columns.js';

/** What many jobs have in common, stored once. */
export type Shape = Pick<NewJob, HeadName<'redis'>>;

/** Longer jobs are never claimed ahead. */
const aheadTimeoutMs = 1_000;

export function shapeText({ type, queue, maxAttempts, policy, source }: Shape): string {
  const { timeoutMs, keep } = policyOf(policy);
  const ahead = timeoutMs === null || timeoutMs <= aheadTimeoutMs ? 'a' : '';
  const keeps = Object.keys(keep).length > 0 ? 'k' : '';
  return `${type}\0${queue}\0${maxAttempts}\0${ahead}${keeps}\0${policy}${source === null ? '' : `\0${source}`}`;
}

export const isSameShape = isAlikeOn<NewJob>('redis');

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

type JobText = Record<string, unknown>;

/** Fields that are not simply written under their own name. */
const prints: { readonly [K in keyof NewJob]?: (to: JobText, job: NewJob) => void } = {
  idGiven: (to) => void (to.given = true),
  when: () => undefined, // it is always there
  under: (to, { under }) => void (to.under = { ...underText(under!), id: under!.id }),
};
const rare = rareColumns('redis').map(({ name, isPlain }) => {
  const print = prints[name] ?? ((to: JobText, job: NewJob) => void (to[name] = job[name]));
  return { isPlain, print };
});

/** What the long way needs of a job besides its shape and input; what is left out is plain. */
export function jobText(job: NewJob, print: string | null): string {
  const text: JobText = { id: job.id, ...job.when };
  for (const column of rare) if (!column.isPlain(job)) column.print(text, job);
  if (print !== null) text.print = print;
  return JSON.stringify(text);
}

/** Epochs are texts to the scripts. */
export function underText({ epoch, owner }: Under): { readonly epoch: string; readonly owner: string } {
  return { epoch: String(epoch), owner };
}

const isPlainJob = isPlainOn('redis');

/** A job that takes the short way: nothing stands in its way, and nobody looks for it by anything but its id and type. */
export function isPlain(job: NewJob): boolean {
  return (
    job.queue !== systemQueue && // which are counted by their types
    isPlainJob(job) &&
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
    ...plainStored,
    dueAt,
    seq: Number.parseInt(text.slice(5, 15), 32),
    id,
    type: shape.type,
    queue: shape.queue,
    input: text.slice(24),
    maxAttempts: shape.maxAttempts,
    source: shape.source,
    policy: shape.policy,
    createdAt,
    scheduledFor: createdAt,
    startedAt: at,
    epoch,
  };
}

/** The columns of lua/view.ts, after the number of the shape. */
export type View = readonly (string | number | null)[];

const read = jobReader(viewNames);

export function jobIn([no, ...view]: View, shapes: Shapes): StoredJob {
  const job = Object.assign(read(view), shapes.get(no as string)!);
  job.cancelReason = reasonIn(job.cancelReason);
  return job;
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
