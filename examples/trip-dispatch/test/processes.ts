/** Processes of their own that dispatch trips on one store, with one world of trips, drivers and screens: that of the test. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { onTestFinished } from 'vitest';
import type { AppOptions } from '../src/app.js';

export type World = Required<Pick<AppOptions, 'tripService' | 'driverService' | 'notifications'>>;

export interface Call {
  readonly id: number;
  readonly service: keyof World;
  readonly method: string;
  readonly args: readonly unknown[];
}

/** `error`: its message. */
export type Answer = { readonly id: number } & ({ readonly value: unknown } | { readonly error: string });

/** It works when this resolves, and is ended with the test. `called` hears of each call that it makes. */
export async function startProcess(url: string, world: World, called: (call: Call) => void): Promise<ChildProcess> {
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  const child = fork(new URL('./process.ts', import.meta.url), [url], { execArgv: ['--import', tsx] });
  const exited = once(child, 'exit');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  const ready = new Promise<void>((resolve, reject) => {
    child.on('message', (message: Call | 'ready') => {
      if (message === 'ready') return resolve();
      called(message);
      void answer(world, message).then((value) => child.connected && child.send(value));
    });
    child.once('exit', (code) => reject(new Error(`The process ended with ${code}`)));
  });
  await ready;
  return child;
}

async function answer(world: World, { id, service, method, args }: Call): Promise<Answer> {
  try {
    const services = world as unknown as Record<string, Record<string, (...args: readonly unknown[]) => unknown>>;
    return { id, value: (await services[service]![method]!(...args)) ?? null };
  } catch (error) {
    return { id, error: String(error) };
  }
}
