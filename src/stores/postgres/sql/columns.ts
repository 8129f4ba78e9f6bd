/** The columns of a job in SQL, from the table of columns. */
import { columnList, headColumns, type KeptName, keptRare, newColumns, plainJob } from '../../../core/columns.js';
import type { NewJob } from '../../../core/store.js';

/** An attribute of a job on its way in. A field may have several. */
export interface Attribute {
  readonly sql: string;
  readonly type: string;
  readonly field: keyof NewJob | null;
}

const attributesOf = (columns: typeof columnList): readonly Attribute[] =>
  columns.flatMap(({ name, sql }) => Object.entries(sql).map(([sql, type]) => ({ sql, type, field: name })));
const added = (sql: string, type: string): Attribute => ({ sql, type, field: null });

const early = columnList.findIndex(({ name }) => name === 'input') + 1;
/** Of the type new_job, in its order: the place in the call, the number, and what the policy says besides. */
export const attributes: readonly Attribute[] = [
  ...[added('o', 'int'), added('seq', 'bigint')],
  ...attributesOf(columnList.slice(0, early)),
  ...[added('long', 'boolean'), added('flags', 'int')],
  ...attributesOf(columnList.slice(early)),
];

/** Of the head of a batch. */
export const headAttributes: readonly Attribute[] = [
  ...attributesOf(headColumns('postgres')),
  ...[added('long', 'boolean'), added('flags', 'int')],
];
const heads = new Set(headAttributes.map(({ sql }) => sql));

const list = (some: readonly Attribute[], print: (attribute: Attribute) => string): string =>
  some.map(print).join(', ');
export const typed = (some: readonly Attribute[], before = ''): string =>
  list(some, ({ sql, type }) => `${before}${sql} ${type}`);
export const named = (some: readonly Attribute[], before = ''): string => list(some, ({ sql }) => `${before}${sql}`);

/** All attributes of a new_job, each by an expression: those that are given, or else the column of that name of a row. */
export function newJobOf(row: string, given: { readonly [sql: string]: string }): string {
  return list(attributes, ({ sql }) => given[sql] ?? `${row}.${sql}`);
}

/** What a plain job has in place of each attribute that is not of the head. */
export const plainAttributes: { readonly [sql: string]: string } = Object.fromEntries(
  attributes.filter(({ sql }) => !heads.has(sql)).map((attribute) => [attribute.sql, plainText(attribute)]),
);

function plainText({ field, type }: Attribute): string {
  const plain: unknown = field === null ? null : plainJob[field as keyof typeof plainJob];
  if (typeof plain === 'boolean') return String(plain);
  return typeof plain === 'string' ? `'${plain}'::${type}` : `null::${type}`;
}

/** What a retry has in place of each attribute that is not taken over. */
export const unretried: { readonly [sql: string]: string } = Object.fromEntries(
  attributesOf(columnList.filter(({ retried }) => !retried)).map(({ sql }) => [sql, 'null']),
);

/** Columns of jobs that most jobs have none in, and that are no instants: of those that may share a head, and of all. */
const ofKept = attributesOf(keptRare).filter(({ sql }) => sql !== 'ttl_ms');
export const headTexts = ofKept.filter(({ sql }) => heads.has(sql));
export const keptTexts = ofKept;

const columnsOf = attributesOf(columnList.filter(({ keep }) => keep)).map(({ sql, type, field }) => {
  const collated = type === 'text' ? `${type} collate "C"` : type;
  const isRare = keptRare.some(({ name }) => name === field);
  return { sql, text: `${sql} ${collated}${isRare ? '' : ' not null'}` };
});

/** The definitions of columns of jobs, by their names. */
export function columnTexts(...names: readonly string[]): string {
  return names.map((name) => columnsOf.find(({ sql }) => sql === name)!.text).join(',\n  ');
}
/** Of those that are not among these. */
export function otherColumns(...names: readonly string[]): string {
  return columnsOf
    .filter(({ sql }) => !names.includes(sql))
    .map(({ text }) => `,\n  ${text}`)
    .join('');
}

export const snake = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
/** The column of a stored job. */
export const sqlOf = (name: KeptName): string => Object.keys(newColumns[name].sql)[0]!;
