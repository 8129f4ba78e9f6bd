/** `lastout/postgres` */
export type { PgPool } from './driver.js';
export type { MigrationPlan } from './migrate.js';
export { postgresStore } from './open.js';
export { migrationPlan, type PlanOptions } from './plan.js';
export type { PostgresOptions, PostgresSource } from './server.js';
