import { isIPv4 } from 'node:net';
import { logLevels, type LogLevel } from './logger.js';

export interface Config {
  readonly host: string;
  readonly port: number;
  /** What a request must bring; null: only this machine can reach the server. */
  readonly token: string | null;
  readonly redisUrl: string;
  /** Where lastout keeps its jobs; REDIS_URL unless it is given. */
  readonly storeUrl: string;
  readonly dockerHost: string;
  /** Tells apart what several installations have on one engine. */
  readonly namespace: string;
  readonly cleanupIntervalMs: number;
  /** How long a dead instance keeps the cleanup lock. */
  readonly cleanupLockMs: number;
  readonly minDurationMinutes: number;
  readonly maxDurationMinutes: number;
  readonly allowedImages: readonly string[];
  readonly defaultCpuMilli: number;
  readonly maxCpuMilli: number;
  readonly defaultMemoryMb: number;
  readonly maxMemoryMb: number;
  readonly maxVolumeMb: number;
  readonly logLevel: LogLevel;
}

export type Environment = { readonly [name: string]: string | undefined };

const dayMinutes = 24 * 60;

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
  const minDurationMinutes = number('CONTAINER_MIN_DURATION_MINUTES', 5);
  const maxCpuMilli = number('MAX_CPU_MILLI', 2_000);
  const maxMemoryMb = number('MAX_MEMORY_MB', 2_048, 6);
  const redisUrl = text('REDIS_URL', 'redis://localhost:6379');
  const level = text('LOG_LEVEL', 'info') as LogLevel;
  if (!logLevels.includes(level)) throw new Error(`LOG_LEVEL must be one of ${logLevels.join(', ')}`);
  const host = text('SERVER_HOST', '127.0.0.1');
  return {
    host,
    port: number('SERVER_PORT', 8_080, 0, 65_535),
    token: readToken(env.SERVER_TOKEN || null, host),
    redisUrl,
    storeUrl: text('STORE_URL', redisUrl),
    dockerHost: text('DOCKER_HOST', 'unix:///var/run/docker.sock'),
    namespace: 'containerlease',
    cleanupIntervalMs: number('CLEANUP_INTERVAL_MINUTES', 1, 1, dayMinutes) * 60_000,
    cleanupLockMs: 90_000,
    minDurationMinutes,
    maxDurationMinutes: number('CONTAINER_MAX_DURATION_MINUTES', 120, minDurationMinutes, 30 * dayMinutes),
    allowedImages: readList(text('ALLOWED_IMAGES', 'ubuntu,alpine'), 'ALLOWED_IMAGES'),
    defaultCpuMilli: number('DEFAULT_CPU_MILLI', Math.min(500, maxCpuMilli), 1, maxCpuMilli),
    maxCpuMilli,
    // An engine gives no container less than 6 MB.
    defaultMemoryMb: number('DEFAULT_MEMORY_MB', Math.min(512, maxMemoryMb), 6, maxMemoryMb),
    maxMemoryMb,
    maxVolumeMb: number('MAX_VOLUME_MB', 5_120),
    logLevel: level,
  };
}

/** Whoever gets an answer here has the engine, and with it the machine. */
function readToken(token: string | null, host: string): string | null {
  if (token !== null && !/^[!-~]{16,}$/.test(token))
    throw new Error('SERVER_TOKEN must have at least 16 characters, of ASCII and without spaces');
  if (token === null && !isLoopback(host))
    throw new Error(`SERVER_HOST is ${host}, which others can reach: set SERVER_TOKEN, or use 127.0.0.1`);
  return token;
}

const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'));

function readList(text: string, name: string): readonly string[] {
  const items = text.split(',').map((item) => item.trim());
  if (items.includes('')) throw new Error(`${name} must be names, separated by commas`);
  return items;
}
