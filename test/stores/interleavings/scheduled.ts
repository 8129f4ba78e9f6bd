// A store whose every verb waits for its turn twice, on its way there and on its way back, and the loop that gives turns.
import type fc from 'fast-check';
import type { Store, StoreFactory } from '../../../src/core/store.js';
import { verbs } from '../../verbs.js';

/** Calls that the store has not answered: some need real time. */
let inStore = 0;

export function scheduledStore(store: Store, scheduler: fc.Scheduler): Store {
  const waiting: Partial<Record<keyof Store, unknown>> = {};
  for (const verb of verbs) {
    const call = store[verb] as (...args: unknown[]) => Promise<unknown>;
    waiting[verb] = async (...args: unknown[]): Promise<unknown> => {
      await scheduler.schedule(Promise.resolve(), `${verb} arrives`);
      inStore += 1;
      const answer = await call(...args).finally(() => (inStore -= 1));
      await scheduler.schedule(Promise.resolve(), `${verb} is answered`);
      return answer;
    };
  }
  return { ...store, ...waiting } as Store;
}

/** For `open`: the stores of a factory, each of them scheduled. */
export function scheduledFactory(factory: StoreFactory, scheduler: fc.Scheduler): StoreFactory {
  return {
    ...factory,
    open: async (context) => scheduledStore(await factory.open(context), scheduler),
  };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/**
 * Gives turns until the work is done. Before each one, everybody who can go on without a turn does, so that the scheduler
 * chooses among all of them. Time moves only when nobody waits for a turn.
 */
export async function giveTurns<T>(scheduler: fc.Scheduler, work: Promise<T>, idle: () => Promise<void>): Promise<T> {
  let done = false;
  const finish = (): void => {
    done = true;
  };
  work.then(finish, finish);
  for (let quiet = 0; !done && quiet < 1_000; ) {
    await turn();
    if (done) break;
    if (scheduler.count() > 0) {
      quiet = 0;
      await scheduler.waitNext(1);
    } else if (inStore === 0) {
      quiet += 1;
      await idle();
    }
  }
  if (!done) throw new Error('The work waits for something that never comes');
  return work;
}

/** The order in which turns were given, as one text. */
export function orderOf(scheduler: fc.Scheduler): string {
  return scheduler
    .report()
    .map(({ label }) => label)
    .join(' > ');
}
