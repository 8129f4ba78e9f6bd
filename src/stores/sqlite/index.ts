/** `lastout/sqlite` */
export { type SqliteOptions, type SqliteSource, sqliteStore } from './store.js';
export type { SqliteDatabase, SqliteStatement } from './driver.js';
