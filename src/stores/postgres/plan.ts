/** The dry run of opening a store. */
import { createSystem } from '../../system.js';
import { firstPlan, type MigrationPlan, planOf } from './migrate.js';
import { type PostgresSource, serverOf } from './server.js';

export interface PlanOptions {
  /** That of `open`; `lastout` unless given. */
  readonly namespace?: string;
}

/**
 * What opening a store would run on the database, as SQL: to look at, or to be run by a role that may create a schema.
 * With null instead of a source: what a database without the schema needs.
 */
export async function migrationPlan(source: PostgresSource | null, options: PlanOptions = {}): Promise<MigrationPlan> {
  const { namespace = 'lastout' } = options;
  if (source === null) return firstPlan(namespace);
  const system = createSystem();
  const { pool, where } = await serverOf(source, { max: 1, listen: false })(system);
  try {
    return await planOf({ pool, namespace, where, system });
  } finally {
    await pool.end();
  }
}
