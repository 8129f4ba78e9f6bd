import { expect, test } from 'vitest';
import { readConfig } from '../src/config.js';

test('the environment has these defaults', () => {
  expect(readConfig({})).toEqual({
    host: '127.0.0.1',
    port: 8080,
    token: null,
    redisUrl: 'redis://localhost:6379',
    storeUrl: 'redis://localhost:6379',
    dockerHost: 'unix:///var/run/docker.sock',
    namespace: 'containerlease',
    cleanupIntervalMs: 60_000,
    cleanupLockMs: 90_000,
    minDurationMinutes: 5,
    maxDurationMinutes: 120,
    allowedImages: ['ubuntu', 'alpine'],
    defaultCpuMilli: 500,
    maxCpuMilli: 2000,
    defaultMemoryMb: 512,
    maxMemoryMb: 2048,
    maxVolumeMb: 5120,
    logLevel: 'info',
  });
});

test('each can be given', () => {
  const env = {
    SERVER_HOST: '0.0.0.0',
    SERVER_PORT: '9090',
    SERVER_TOKEN: 'sixteen-or-more-of-them',
    REDIS_URL: 'redis://cache:6379',
    STORE_URL: 'sqlite:jobs.db',
    DOCKER_HOST: 'tcp://engine:2375',
    CLEANUP_INTERVAL_MINUTES: '3',
    CONTAINER_MIN_DURATION_MINUTES: '1',
    CONTAINER_MAX_DURATION_MINUTES: '60',
    ALLOWED_IMAGES: 'alpine, debian',
    DEFAULT_CPU_MILLI: '100',
    MAX_CPU_MILLI: '1000',
    DEFAULT_MEMORY_MB: '64',
    MAX_MEMORY_MB: '128',
    MAX_VOLUME_MB: '10',
    LOG_LEVEL: 'debug',
  };
  expect(readConfig(env)).toMatchObject({
    host: '0.0.0.0',
    port: 9090,
    token: 'sixteen-or-more-of-them',
    redisUrl: 'redis://cache:6379',
    storeUrl: 'sqlite:jobs.db',
    dockerHost: 'tcp://engine:2375',
    cleanupIntervalMs: 180_000,
    minDurationMinutes: 1,
    maxDurationMinutes: 60,
    allowedImages: ['alpine', 'debian'],
    defaultCpuMilli: 100,
    maxCpuMilli: 1000,
    defaultMemoryMb: 64,
    maxMemoryMb: 128,
    maxVolumeMb: 10,
    logLevel: 'debug',
  });
});

test.each([
  ['SERVER_PORT', 'http', 'SERVER_PORT must be a valid number'],
  ['SERVER_PORT', '70000', 'SERVER_PORT must be a valid number, at most 65535'],
  ['CLEANUP_INTERVAL_MINUTES', '1m', 'CLEANUP_INTERVAL_MINUTES must be a valid number'],
  ['CLEANUP_INTERVAL_MINUTES', '0', 'CLEANUP_INTERVAL_MINUTES must be a valid number, at least 1'],
  ['CONTAINER_MIN_DURATION_MINUTES', 'x', 'CONTAINER_MIN_DURATION_MINUTES must be a valid number'],
  ['CONTAINER_MAX_DURATION_MINUTES', '4', 'CONTAINER_MAX_DURATION_MINUTES must be a valid number, at least 5'],
  ['DEFAULT_CPU_MILLI', '3000', 'DEFAULT_CPU_MILLI must be a valid number, at most 2000'],
  ['MAX_CPU_MILLI', 'many', 'MAX_CPU_MILLI must be a valid number'],
  ['DEFAULT_MEMORY_MB', '1.5', 'DEFAULT_MEMORY_MB must be a valid number'],
  ['MAX_MEMORY_MB', 'x', 'MAX_MEMORY_MB must be a valid number'],
  ['MAX_VOLUME_MB', 'x', 'MAX_VOLUME_MB must be a valid number'],
  ['ALLOWED_IMAGES', 'ubuntu,,alpine', 'ALLOWED_IMAGES must be names, separated by commas'],
  ['LOG_LEVEL', 'loud', 'LOG_LEVEL must be one of debug, info, warn, error'],
])('%s=%s stops the start and is named', (name, value, message) => {
  expect(() => readConfig({ [name]: value })).toThrow(message);
});

test('an empty variable is an unset one', () => {
  expect(readConfig({ CLEANUP_INTERVAL_MINUTES: '' }).cleanupIntervalMs).toBe(60_000);
});
