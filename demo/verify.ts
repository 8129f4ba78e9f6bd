/**
 * Reads the file back with the SQLite driver alone. The queue has no say in this: what it forgot, or what it counts
 * wrongly, would show here.
 */
export interface Expected {
  readonly id: string;
  readonly type: string;
  readonly state: State;
  readonly attempts?: number;
  readonly stalls?: number;
  readonly result?: object;
}

type State = (typeof states)[number];
const states = ['completed', 'failed', 'cancelled', 'expired'] as const;

export interface Found {
  /** What is not as it should be; an empty list is the good one. */
  readonly faults: readonly string[];
  readonly finished: number;
  readonly byState: { readonly [S in State]?: number };
}

interface Statement {
  all(...values: string[]): unknown[];
}
interface Driver {
  readonly DatabaseSync: new (file: string) => { prepare(text: string): Statement; close(): unknown };
}

async function loadDriver(): Promise<Driver> {
  const own = process.getBuiltinModule?.('node:sqlite') as Driver | undefined;
  return own ?? (await import('@photostructure/sqlite'));
}

/** Tables that hold something only while work is under way. */
/** The row of a finished job stays among the jobs. */
const liveTables = {
  'lastout_jobs where seq not in (select seq from lastout_done)': 'live job',
  lastout_pending: 'pending entry',
  lastout_claims: 'claim',
  lastout_turns: 'turn of an exclusive key',
};

interface DoneRow {
  readonly id: string;
  readonly type: string;
  readonly state: number;
  readonly attempts: number;
  readonly result: string | null;
  readonly rest: string | null;
}

export async function readBack(file: string, expected: readonly Expected[]): Promise<Found> {
  const { DatabaseSync } = await loadDriver();
  const db = new DatabaseSync(file);
  try {
    const faults: string[] = [];
    for (const [table, what] of Object.entries(liveTables)) {
      const left = db.prepare(`select * from ${table}`).all();
      if (left.length > 0) faults.push(`${left.length} ${what}${left.length > 1 ? 's' : ''} in the file`);
    }
    const sound = db.prepare('pragma integrity_check').all() as { integrity_check: string }[];
    if (sound[0]?.integrity_check !== 'ok') faults.push('the file is damaged');

    const rows = db
      .prepare(
        'select j.id, d.type, d.state, d.attempts, d.result, d.rest from lastout_done d join lastout_jobs j using (seq) order by seq',
      )
      .all() as DoneRow[];
    const wanted = new Map(expected.map((job) => [job.id, job]));
    const byState: { [S in State]?: number } = {};
    for (const row of rows) {
      const state = states[row.state]!;
      byState[state] = (byState[state] ?? 0) + 1;
      const job = wanted.get(row.id);
      wanted.delete(row.id);
      faults.push(...(job ? differences(row, job) : [`${row.type} ${row.id} is ${state}, and nobody knows of it`]));
    }
    for (const { id, type, state } of wanted.values()) faults.push(`${type} ${id} should be ${state} and is not there`);
    return { faults, finished: rows.length, byState };
  } finally {
    db.close();
  }
}

function differences(row: DoneRow, job: Expected): string[] {
  const rest = JSON.parse(row.rest ?? '{}') as { stalls?: number };
  const pairs: readonly (readonly [string, unknown, unknown])[] = [
    ['type', row.type, job.type],
    ['state', states[row.state], job.state],
    ['attempts', row.attempts, job.attempts],
    ['stalls', rest.stalls ?? 0, job.stalls],
    ['result', row.result, job.result && JSON.stringify(job.result)],
  ];
  return pairs
    .filter(([, is, should]) => should !== undefined && is !== should)
    .map(([name, is, should]) => `${row.type} ${row.id}: ${name} is ${String(is)} and should be ${String(should)}`);
}

/** The last words of the demo, and its exit code. */
export function verdict({ faults }: Pick<Found, 'faults'>): {
  readonly lines: readonly string[];
  readonly code: 0 | 1;
} {
  if (faults.length === 0) return { lines: ['nothing left behind'], code: 0 };
  return { lines: ['left behind:', ...faults.map((fault) => `  ${fault}`)], code: 1 };
}
