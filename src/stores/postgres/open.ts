/** The PostgreSQL store: one database, any number of processes and machines. */
import { LastoutError } from '../../core/errors.js';
import { createShared } from '../../core/shared.js';
import type { Store, StoreContext, StoreFactory } from '../../core/store.js';
import type { System } from '../../core/system.js';
import { type Call, createCall, inOrder } from './call.js';
import { warningsOf } from './check.js';
import { createInside } from './inside.js';
import { createMeeting, type Meeting } from '../../core/meeting.js';
import { migrate, type Place, schemaOf } from './migrate.js';
import { type PostgresOptions, type PostgresSource, type Server, serverOf } from './server.js';
import { createRun } from './run.js';
import { postgresVerbs } from './store.js';

export function postgresStore(source: PostgresSource, options: PostgresOptions = {}): StoreFactory {
  const connectTo = serverOf(source, options);
  const { acquire, release } = createShared(
    async (system: System): Promise<Connected> => ({ server: await connectTo(system), namespaces: new Map() }),
    ({ server }) => Promise.all([server.ear.end(), server.pool.end()]),
  );

  return {
    engine: 'postgres',
    async open(context) {
      const { namespace, system } = context;
      const { server, namespaces } = await acquire(system);
      try {
        const place = await migrate({ pool: server.pool, where: server.where, namespace, system });
        const meeting = namespaces.get(namespace) ?? createMeeting(server.ear, namespace, system.id());
        namespaces.set(namespace, meeting);
        return await storeOn({ server, place, meeting, context, release });
      } catch (error) {
        await release();
        throw error;
      }
    },
  };
}

/** What the queues of one factory have in common. */
interface Connected {
  readonly server: Server;
  readonly namespaces: Map<string, Meeting>;
}

interface StoreParts {
  readonly server: Server;
  readonly place: Place;
  readonly meeting: Meeting;
  readonly context: StoreContext;
  release(): Promise<void>;
}

async function storeOn({ server, place, meeting, context, release }: StoreParts): Promise<Store> {
  const { pool, ear, where } = server;
  const { system } = context;
  const schema = schemaOf(context.namespace);
  let closed = false;

  const inside = createInside({ schema, where, identity: place.identity, system });
  const run = createRun({ pool, where, system, ear });
  const called = inOrder(createCall(run, inside, schema));
  const call: Call = (fn, args, tx) =>
    closed ? Promise.reject(new LastoutError('CLOSED', 'The store is closed.')) : called(fn, args, tx);
  if (!place.isNoted || context.identity === 'new') await call('identify_v1', [context.identity === 'new']);
  const verbs = await postgresVerbs({ call, context, sender: meeting.sender, give: meeting.give });
  const own = new Set<() => void>();

  return {
    ...verbs,
    engine: 'postgres',
    traits: { isVolatile: false, insertsAbreast: 1, leastSweep: 50 },
    durability: place.durability,
    subscribe(listener, from) {
      const part = meeting.join(listener, from);
      const leave = (): void => {
        part();
        own.delete(leave);
      };
      own.add(leave);
      return leave;
    },
    check: async () => [...(await warningsOf(call, system.givenNow(), where)), ...server.warnings],
    async close() {
      if (closed) return;
      closed = true;
      for (const leave of [...own]) leave();
      await release();
    },
  };
}
