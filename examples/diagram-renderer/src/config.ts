import { logLevels, type LogLevel } from './logger.js';

export interface Config {
  /** How often to check for pending jobs. */
  readonly jobPollIntervalMs: number;
  /** How often old jobs and expired outputs are removed. */
  readonly jobCleanupIntervalMs: number;
  /** How long a finished job stays, from its end. */
  readonly jobRetentionMs: number;
  readonly jobDbPath: string;
  readonly queueMaxConcurrent: number;
  readonly queueMaxWaiting: number;
  /** How long a short link leads somewhere. */
  readonly cacheTtlMs: number;
  /** After this time the process that renders is killed. */
  readonly renderTimeoutMs: number;
  /** Above this the process that renders is killed. */
  readonly renderMemoryMb: number;
  readonly host: string;
  readonly port: number;
  readonly baseUrl: string;
  readonly logLevel: LogLevel;
  readonly auth: { readonly user: string; readonly pass: string } | null;
}

export type Environment = { readonly [name: string]: string | undefined };

/** A timer that is to wait longer fires at once. */
const longestTimerMs = 2 ** 31 - 1;

/** Reads the environment; an empty variable is an unset one. What is wrong stops the start and is named. */
export function readConfig(env: Environment): Config {
  const text = (name: string, fallback: string): string => env[name] || fallback;
  const number = (name: string, fallback: number, min = 1, max = Number.MAX_SAFE_INTEGER): number => {
    const value = Number(text(name, String(fallback)));
    if (!Number.isSafeInteger(value)) throw new Error(`${name} must be a valid number`);
    if (value < min) throw new Error(`${name} must be a valid number, at least ${min}`);
    if (value > max) throw new Error(`${name} must be a valid number, at most ${max}`);
    return value;
  };
  const level = text('LOG_LEVEL', 'info') as LogLevel;
  return {
    jobPollIntervalMs: number('JOB_POLL_INTERVAL_MS', 100),
    jobCleanupIntervalMs: number('JOB_CLEANUP_INTERVAL_MS', 60_000),
    jobRetentionMs: number('JOB_RETENTION_MS', 3_600_000),
    jobDbPath: text('JOB_DB_PATH', './data/jobs.db'),
    queueMaxConcurrent: number('QUEUE_MAX_CONCURRENT', 10),
    queueMaxWaiting: number('QUEUE_MAX_WAITING', 50, 0),
    cacheTtlMs: number('CACHE_TTL', 300_000),
    renderTimeoutMs: number('RENDER_TIMEOUT_MS', 30_000, 1, longestTimerMs),
    renderMemoryMb: number('RENDER_MEMORY_MB', 512),
    host: text('HOST', '127.0.0.1'),
    port: number('PORT', 3000, 0, 65_535),
    baseUrl: text('BASE_URL', '').replace(/\/+$/, ''),
    logLevel: logLevels.includes(level) ? level : 'info',
    auth: readAuth(text),
  };
}

/** Every rendering ends by its time limit, so the line moves. Should it not, nobody stands in it longer than this. */
export function slotWaitMs({ queueMaxConcurrent, queueMaxWaiting, renderTimeoutMs }: Config): number {
  const turns = Math.ceil(queueMaxWaiting / queueMaxConcurrent) + 1;
  return turns * (renderTimeoutMs + 5_000);
}

function readAuth(text: (name: string, fallback: string) => string): Config['auth'] {
  const enabled = text('AUTH_ENABLED', 'false');
  if (enabled !== 'true' && enabled !== 'false') throw new Error('AUTH_ENABLED must be true or false');
  if (enabled === 'false') return null;
  const [user, pass] = [text('AUTH_USER', ''), text('AUTH_PASS', '')];
  if (user === '') throw new Error('AUTH_USER is required when AUTH_ENABLED is true');
  if (pass === '') throw new Error('AUTH_PASS is required when AUTH_ENABLED is true');
  return { user, pass };
}
