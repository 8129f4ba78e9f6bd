import { LastoutError } from 'lastout';
import { Unavailable } from './domain.js';

export interface Outage {
  readonly status: 400 | 422 | 503;
  readonly reason: string;
}

/** What lastout says of a store that gives no answer, or refuses; and of a lease that could not be taken. */
const storeCodes: ReadonlySet<string> = new Set([
  ...['STORE_UNAVAILABLE', 'STORE_FULL', 'STORE_READONLY', 'STORE_DENIED', 'RESULT_UNKNOWN', 'TIMEOUT'],
  ...['LEASE_UNCERTAIN', 'LEASE_LOST', 'CLOSED'],
]);

/** Why the engine or the store kept a request from being done. Null: neither of them has. */
export function outageOf(error: unknown): Outage | null {
  if (error instanceof LastoutError) return storeCodes.has(error.code) ? { status: 503, reason: error.message } : null;
  if (error instanceof Unavailable) return { status: 503, reason: error.message };
  const { statusCode, code, syscall, json } = (error ?? {}) as {
    readonly [field: string]: unknown;
    readonly json?: { readonly message?: unknown } | null;
  };
  const reason = typeof json?.message === 'string' ? json.message : String((error as Error | null)?.message);
  if (statusCode === 404 && /no such image/i.test(reason)) return { status: 422, reason };
  if (statusCode === 400) return { status: 400, reason };
  const hasEngineAnswered = typeof statusCode === 'number';
  const isSocketError = typeof code === 'string' && (syscall !== undefined || /^E[A-Z]+$/.test(code));
  return hasEngineAnswered || isSocketError ? { status: 503, reason: `The engine: ${reason}` } : null;
}
