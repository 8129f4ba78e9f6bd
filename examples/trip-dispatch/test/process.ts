// One process that dispatches trips: `process.ts URL`. Trips, drivers and screens are those of its parent.
import { TripDispatch } from '../src/app.js';
import { createLogger } from '../src/logger.js';
import type { Answer, Call, World } from './processes.js';

const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
let calls = 0;
process.on('message', (answer: Answer) => {
  const { resolve, reject } = waiting.get(answer.id)!;
  waiting.delete(answer.id);
  if ('error' in answer) reject(new Error(answer.error));
  else resolve(answer.value);
});

process.on('disconnect', () => process.exit());

function remote<S extends keyof World>(service: S): World[S] {
  const call = (method: string, args: readonly unknown[]): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const id = ++calls;
      waiting.set(id, { resolve, reject });
      // A signal stays here.
      process.send!({ id, service, method, args: args.filter((arg) => !(arg instanceof AbortSignal)) } satisfies Call);
    });
  return new Proxy(Object.create(null), {
    get:
      (_, method: string) =>
      (...args: readonly unknown[]) =>
        call(method, args),
  }) as World[S];
}

const app = await TripDispatch.open(process.argv[2]!, {
  logger: createLogger('error', ({ message, fields }) => console.error(message, fields)),
  tripService: remote('tripService'),
  driverService: remote('driverService'),
  notifications: remote('notifications'),
  // Nobody is passed over while the test looks.
  config: { driverResponseMs: 600_000 },
});
await app.start();
process.send!('ready');
