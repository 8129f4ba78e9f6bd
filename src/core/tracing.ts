/** Spans around what is sent and what is run. Without the option `tracing` there is none, and nobody is asked. */
import type { NewJob, StoredJob } from './store.js';

export interface Tracing {
  /** A span around the insert of these jobs; each of them carries its context from here on. */
  send<T>(jobs: readonly NewJob[], insert: (jobs: readonly NewJob[]) => Promise<T>): Promise<T>;
  /** A span around a handler, and its context while the handler runs. */
  process(stored: StoredJob, run: () => unknown): unknown;
}
