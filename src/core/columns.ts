/**
 * The table of columns: what each field of a job is to the stores. Their lists of columns, their tests whether a job is plain
 * or like another one, their parsers and printers are made from it, so that a new field is classified here, or does not
 * compile. Fields are read and written by functions of their own: a loop over names costs several times as much.
 *
 * A plain job has nothing but what every job has. Stores take in those that come together as a batch: what they have in
 * common is its head, and each has an id and an input of its own.
 */
import type { JobFilter, NewJob, StoredJob } from './stored-job.js';

export type Mutable<T> = { -readonly [K in keyof T]: T[K] };

const everywhere = ['sqlite', 'postgres', 'redis'] as const;
/** Stores that have a short way for batches. */
export type BatchStore = (typeof everywhere)[number];

/** What most jobs have alike. Its other fields every job has of its own. */
export const plainJob = {
  idGiven: false,
  print: null,
  priority: 0,
  when: { inMs: 0 },
  ttlMs: null,
  subject: null,
  key: null,
  exclusiveKey: null,
  deduplication: 'none',
  source: null,
  metadata: null,
  ownedBy: null,
  under: null,
} satisfies Partial<NewJob>;

type PlainName = keyof typeof plainJob;

interface Head {
  /** Stores whose batches have it in their head. The batches of others have only plain ones. */
  readonly of: readonly BatchStore[];
  readonly isSame: (a: NewJob, b: NewJob) => boolean;
}

export interface NewColumn {
  /** On PostgreSQL: the attributes of a job on its way in, and the column of a stored one. */
  readonly sql: { readonly [name: string]: 'text' | 'int' | 'bigint' | 'boolean' };
  /** The stored job has it, under the same name. Absent: it turns into something else. */
  readonly keep?: (from: NewJob, to: Mutable<NewJob>) => void;
  /** A retry by hand has that of its job. */
  readonly retried?: true;
  /** Jobs that differ in it never share the head of a batch. */
  readonly head?: Head;
  /** On SQLite it has a column, mostly null. Else it stands in `rest`. */
  readonly sqlite?: true;
  /** A job that has one is ended by itself, because something hangs on it. */
  readonly hangs?: true;
  readonly isPlain?: (job: NewJob) => boolean;
}

export type RareColumn = NewColumn & Required<Pick<NewColumn, 'isPlain'>>;
type EveryonesColumn = Omit<NewColumn, 'isPlain'> & { readonly head?: Head & { readonly of: typeof everywhere } };

/** In the order in which PostgreSQL has them. Add at the end only. */
export const newColumns = {
  id: { sql: { id: 'text' }, keep: (from, to) => void (to.id = from.id) },
  idGiven: { sql: { given: 'boolean' }, isPlain: (job) => !job.idGiven },
  print: {
    sql: { print: 'text' },
    keep: (from, to) => void (to.print = from.print),
    isPlain: (job) => job.print === null,
  },
  type: {
    sql: { type: 'text' },
    keep: (from, to) => void (to.type = from.type),
    retried: true,
    head: { of: everywhere, isSame: (a, b) => a.type === b.type },
  },
  queue: {
    sql: { queue: 'text' },
    keep: (from, to) => void (to.queue = from.queue),
    retried: true,
    head: { of: everywhere, isSame: (a, b) => a.queue === b.queue },
  },
  priority: {
    sql: { priority: 'int' },
    keep: (from, to) => void (to.priority = from.priority),
    retried: true,
    head: { of: ['sqlite', 'postgres'], isSame: (a, b) => a.priority === b.priority },
    isPlain: (job) => job.priority === 0,
  },
  when: {
    sql: { in_ms: 'bigint', at: 'bigint' },
    head: {
      of: ['postgres'],
      isSame: ({ when: a }, { when: b }) =>
        a === b || ('inMs' in a ? 'inMs' in b && a.inMs === b.inMs : 'at' in b && a.at === b.at),
    },
    isPlain: ({ when }) => 'inMs' in when && when.inMs === 0,
  },
  ttlMs: {
    sql: { ttl_ms: 'bigint' },
    keep: (from, to) => void (to.ttlMs = from.ttlMs),
    retried: true,
    head: { of: ['postgres'], isSame: (a, b) => a.ttlMs === b.ttlMs },
    isPlain: (job) => job.ttlMs === null,
  },
  maxAttempts: {
    sql: { max_attempts: 'int' },
    keep: (from, to) => void (to.maxAttempts = from.maxAttempts),
    retried: true,
    head: { of: everywhere, isSame: (a, b) => a.maxAttempts === b.maxAttempts },
  },
  subject: {
    sql: { subject: 'text' },
    keep: (from, to) => void (to.subject = from.subject),
    retried: true,
    head: { of: ['postgres'], isSame: (a, b) => a.subject === b.subject },
    sqlite: true,
    isPlain: (job) => job.subject === null,
  },
  key: {
    sql: { key: 'text' },
    keep: (from, to) => void (to.key = from.key),
    retried: true,
    sqlite: true,
    hangs: true,
    isPlain: (job) => job.key === null,
  },
  exclusiveKey: {
    sql: { xkey: 'text' },
    keep: (from, to) => void (to.exclusiveKey = from.exclusiveKey),
    retried: true,
    hangs: true,
    isPlain: (job) => job.exclusiveKey === null,
  },
  deduplication: { sql: { dedup: 'text' }, isPlain: (job) => job.deduplication === 'none' },
  source: {
    sql: { source: 'text' },
    keep: (from, to) => void (to.source = from.source),
    retried: true,
    head: { of: ['postgres', 'redis'], isSame: (a, b) => a.source === b.source },
    sqlite: true,
    isPlain: (job) => job.source === null,
  },
  metadata: {
    sql: { metadata: 'text' },
    keep: (from, to) => void (to.metadata = from.metadata),
    retried: true,
    head: { of: ['postgres'], isSame: (a, b) => a.metadata === b.metadata },
    isPlain: (job) => job.metadata === null,
  },
  policy: {
    sql: { policy: 'int' },
    keep: (from, to) => void (to.policy = from.policy),
    retried: true,
    head: { of: everywhere, isSame: (a, b) => a.policy === b.policy },
  },
  input: { sql: { input: 'text' }, keep: (from, to) => void (to.input = from.input), retried: true },
  ownedBy: {
    sql: { owned_by: 'text' },
    keep: (from, to) => void (to.ownedBy = from.ownedBy),
    hangs: true,
    isPlain: (job) => job.ownedBy === null,
  },
  under: {
    sql: { under_epoch: 'bigint', under_owner: 'text', under_id: 'text' },
    isPlain: (job) => job.under === null,
  },
} as const satisfies { readonly [K in keyof NewJob]: K extends PlainName ? RareColumn : EveryonesColumn };

type Columns = typeof newColumns;
type NamesWith<Part> = { [K in keyof Columns]: Columns[K] extends Part ? K : never }[keyof Columns];
/** What a stored job has of the new one. */
export type KeptName = NamesWith<{ readonly keep: unknown }>;
export type Kept = Pick<NewJob, KeptName>;
/** Of what is kept, all that a plain job has none of. */
export type RareName = Exclude<KeptName & PlainName, 'priority'>;
export type HeadName<S extends BatchStore> = {
  [K in keyof Columns]: Columns[K] extends { readonly head: { readonly of: readonly (infer B)[] } }
    ? S extends B
      ? K
      : never
    : never;
}[keyof Columns];

export interface Column<Name extends keyof NewJob = keyof NewJob> extends NewColumn {
  readonly name: Name;
}

export const columnList: readonly Column[] = Object.entries<NewColumn>(newColumns).map(([name, column]) => ({
  ...column,
  name: name as keyof NewJob,
}));

/** What the jobs of a batch have in common. */
export function headColumns<S extends BatchStore>(
  store: S,
): readonly (Column<HeadName<S>> & { readonly head: Head })[] {
  return columnList.filter(({ head }) => head?.of.includes(store)) as never;
}

/** What a job has to be plain in to be of a batch. */
export function rareColumns(store: BatchStore): readonly (Column & RareColumn)[] {
  return columnList.filter(({ head, isPlain }) => isPlain && !head?.of.includes(store)) as never;
}

export type KeptRare = Column<RareName> & RareColumn & Required<Pick<NewColumn, 'keep'>>;
/** Of what is kept, all that a plain job has none of. */
export const keptRare = columnList.filter(
  ({ keep, name }) => keep && name in plainJob && name !== 'priority',
) as readonly unknown[] as readonly KeptRare[];

/** What a retry by hand takes over from its job. */
export const retriedColumns = columnList.filter(({ retried }) => retried) as readonly (Column<KeptName> &
  Required<Pick<NewColumn, 'keep'>>)[];

/** A plain job at its first attempt. What every job has of its own is to be filled in. */
export const plainStored: StoredJob = {
  seq: 0,
  id: '',
  type: '',
  queue: '',
  state: 'processing',
  priority: 0,
  input: '',
  result: null,
  error: null,
  attempts: 1,
  maxAttempts: 0,
  stalls: 0,
  subject: null,
  key: null,
  exclusiveKey: null,
  source: null,
  metadata: null,
  policy: '',
  progress: null,
  memo: null,
  retryOf: null,
  ownedBy: null,
  cancelAt: null,
  cancelReason: null,
  heldUntil: null,
  heldReason: null,
  createdAt: 0,
  scheduledFor: 0,
  startedAt: null,
  completedAt: null,
  expiresAt: null,
  dueAt: null,
  epoch: 0,
};

/** A stored job, before anything is known of a claim that holds it. */
type Stored = Kept & Omit<StoredJob, KeptName | 'state' | 'dueAt' | 'scheduledFor'> & { readonly dueAt: number };

/** Made in one piece and changed in place: every claim makes one for each of its jobs. */
export function shownOf(row: Stored, state: StoredJob['state'], dueAt: number | null): Mutable<StoredJob> {
  return {
    state,
    dueAt,
    seq: row.seq,
    id: row.id,
    type: row.type,
    queue: row.queue,
    priority: row.priority,
    input: row.input,
    result: row.result,
    error: row.error,
    attempts: row.attempts,
    maxAttempts: row.maxAttempts,
    stalls: row.stalls,
    subject: row.subject,
    key: row.key,
    exclusiveKey: row.exclusiveKey,
    source: row.source,
    metadata: row.metadata,
    policy: row.policy,
    progress: row.progress,
    memo: row.memo,
    retryOf: row.retryOf,
    ownedBy: row.ownedBy,
    cancelAt: row.cancelAt,
    cancelReason: row.cancelReason,
    heldUntil: row.heldUntil,
    heldReason: row.heldReason,
    createdAt: row.createdAt,
    scheduledFor: row.dueAt,
    startedAt: row.startedAt,
    completedAt: row.completedAt,
    expiresAt: row.expiresAt,
    epoch: row.epoch,
  };
}

/** What a store knows besides what came with the job. */
export type RunName = Exclude<keyof StoredJob, KeptName>;

type Write<K extends keyof StoredJob> = (to: Mutable<StoredJob>, value: StoredJob[K]) => void;

/** In the order in which PostgreSQL and Redis show a job. Add at the end only. */
const storedColumns = {
  seq: (to, value) => void (to.seq = value),
  id: (to, value) => void (to.id = value),
  type: (to, value) => void (to.type = value),
  queue: (to, value) => void (to.queue = value),
  state: (to, value) => void (to.state = value),
  priority: (to, value) => void (to.priority = value),
  input: (to, value) => void (to.input = value),
  result: (to, value) => void (to.result = value),
  error: (to, value) => void (to.error = value),
  attempts: (to, value) => void (to.attempts = value),
  maxAttempts: (to, value) => void (to.maxAttempts = value),
  stalls: (to, value) => void (to.stalls = value),
  subject: (to, value) => void (to.subject = value),
  key: (to, value) => void (to.key = value),
  exclusiveKey: (to, value) => void (to.exclusiveKey = value),
  source: (to, value) => void (to.source = value),
  metadata: (to, value) => void (to.metadata = value),
  policy: (to, value) => void (to.policy = value),
  progress: (to, value) => void (to.progress = value),
  memo: (to, value) => void (to.memo = value),
  retryOf: (to, value) => void (to.retryOf = value),
  ownedBy: (to, value) => void (to.ownedBy = value),
  cancelAt: (to, value) => void (to.cancelAt = value),
  cancelReason: (to, value) => void (to.cancelReason = value),
  heldUntil: (to, value) => void (to.heldUntil = value),
  heldReason: (to, value) => void (to.heldReason = value),
  createdAt: (to, value) => void (to.createdAt = value),
  scheduledFor: (to, value) => void (to.scheduledFor = value),
  startedAt: (to, value) => void (to.startedAt = value),
  completedAt: (to, value) => void (to.completedAt = value),
  expiresAt: (to, value) => void (to.expiresAt = value),
  dueAt: (to, value) => void (to.dueAt = value),
  epoch: (to, value) => void (to.epoch = value),
} satisfies { readonly [K in keyof StoredJob]: Write<K> };

export const storedNames = Object.keys(storedColumns) as readonly (keyof StoredJob)[];

/** Of a list of values, one for each of these columns, a job. */
export function jobReader(names: readonly (keyof StoredJob)[]): (values: readonly unknown[]) => Mutable<StoredJob> {
  const writes = names.map(
    (name) => storedColumns[name] as Write<keyof StoredJob> as (to: object, value: unknown) => void,
  );
  return (values) => {
    const job = { ...plainStored };
    for (let i = 0; i < writes.length; i++) writes[i]!(job, values[i]);
    return job;
  };
}

/** Fields of a filter that are asked of one column. The others say where to look, or are asked of what every job has. */
type AskedName = Exclude<keyof JobFilter, 'ids' | 'states' | 'types' | 'queues' | 'before' | 'after' | 'system'>;

interface Asked {
  readonly column: RareName;
  readonly passes: (job: Kept, filter: JobFilter) => boolean;
  readonly sqlite: (column: string, value: string) => string;
  readonly postgres: (column: string, value: string) => string;
  /** In Lua: it does not pass. */
  readonly fails: (column: string, value: string) => string;
}

const equal = {
  sqlite: (column: string, value: string) => `${column} = ${value}`,
  postgres: (column: string, value: string) => `${column} = ${value}`,
  fails: (column: string, value: string) => `${column} ~= ${value}`,
};

const filterColumns = {
  subject: { ...equal, column: 'subject', passes: (job, { subject }) => subject === null || job.subject === subject },
  key: { ...equal, column: 'key', passes: (job, { key }) => key === null || job.key === key },
  source: { ...equal, column: 'source', passes: (job, { source }) => source === null || job.source === source },
  ownedBy: { ...equal, column: 'ownedBy', passes: (job, { ownedBy }) => ownedBy === null || job.ownedBy === ownedBy },
} satisfies Record<AskedName, Asked>;

export const askedColumns = Object.entries<Asked>(filterColumns).map(([name, asked]) => ({
  ...asked,
  name: name as AskedName,
}));
