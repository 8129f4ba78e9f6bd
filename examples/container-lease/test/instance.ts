// One instance as a process of its own: a cleanup worker that ticks every second, and a lock of six seconds. It says what it does.
import Docker from 'dockerode';
import { App } from '../src/app.js';
import { readConfig } from '../src/config.js';
import { createLogger } from '../src/logger.js';

const quick = { cleanupIntervalMs: 1_000, cleanupLockMs: 6_000, namespace: process.env.NAMESPACE ?? '', port: 0 };
const logger = createLogger('info', (entry) => void process.stdout.write(`${JSON.stringify(entry)}\n`));
const app = await App.open({ ...readConfig(process.env), ...quick }, logger, { docker: new Docker() });
await app.start();
process.once('SIGTERM', () => void app.close());
