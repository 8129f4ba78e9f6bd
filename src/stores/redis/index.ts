/** `lastout/redis` */
import { createShared } from '../../core/shared.js';
import type { Durability, Store, StoreContext, StoreFactory, Traits } from '../../core/store.js';
import { type Call, createCall, loadScripts } from './call.js';
import { admit, inspect, inspectWriting, markScript, placeMark, wantedReplicas, writingScript } from './check.js';
import { type Connection, createConnection } from './connection.js';
import { LastoutError } from '../../core/errors.js';
import { mayComeUp } from './errors.js';
import { createHearing, type Hearing } from './hear.js';
import { createMeeting, type Ear, type Meeting } from '../../core/meeting.js';
import { identityScript, knownScript, openIdentity } from './identity.js';
import type { System } from '../../core/system.js';
import { upgradeLayout } from './layout.js';
import { scripts } from './scripts.js';
import { type RedisSource, readSource, type Source } from './source.js';
import { doubtIn, expectWaiting, goodReplicas, replicaWarnings } from './replicas.js';
import { redisVerbs } from './store.js';

export type { GivenClient, RedisSource } from './source.js';

/** Several queues may share one: they share its connections. */
export function redisStore(from: RedisSource): StoreFactory {
  const source = readSource(from);
  const { acquire, release } = createShared(
    (system: System) => connect(source, system),
    (open: Connected) => open.close(),
  );

  return {
    engine: 'redis',
    takesReplicas: true,
    mayComeUp,
    async open(context) {
      if (source.isCluster && context.replicas !== undefined) throw noReplicas();
      // Nothing of a connection keeps the process alive, and somebody awaits this one.
      const letGo = context.system.timer(openMs, () => undefined, 'hold');
      try {
        const open = await acquire(context.system);
        try {
          return await openNamespace(open, context, release);
        } catch (error) {
          await release();
          throw error;
        }
      } finally {
        letGo();
      }
    },
  };
}

const openMs = 15_000;

/** The server has one thread: while it works on one batch, the next is made; and every claim waits behind a part of a sweep. */
const traits: Traits = { isVolatile: false, insertsAbreast: 2, leastSweep: 25 };

function noReplicas(): LastoutError {
  const message = 'replicas is for one primary with its replicas, and the given client is of a cluster: leave it out.';
  return new LastoutError('UNKNOWN_OPTION', message);
}

interface Connected {
  readonly source: Source;
  readonly connection: Connection;
  readonly hearing: Hearing;
  readonly meetings: Map<string, Meeting>;
  durability: Durability;
  close(): Promise<void>;
}

async function connect(source: Source, system: StoreContext['system']): Promise<Connected> {
  const connection = await createConnection(source, system);
  try {
    await connection.ready('hold');
    const { durability } = await admit(connection);
    await loadScripts(connection, [...Object.values(scripts), markScript, identityScript, knownScript, writingScript]);
    const hearing = createHearing(source, connection, system);
    return {
      source,
      connection,
      hearing,
      meetings: new Map(),
      durability,
      async close() {
        await hearing.close();
        await connection.close();
      },
    };
  } catch (error) {
    await connection.close();
    throw error;
  }
}

/** What the same namespace of another database says is not for this one. */
function within({ database }: Source, hearing: Hearing): Ear {
  const here = `${database}/`;
  return {
    listen: (channel, hear) =>
      hearing.listen(channel, (payload) => {
        if (payload === null || payload.startsWith(here)) hear(payload);
      }),
  };
}

async function openNamespace(shared: Connected, context: StoreContext, release: () => Promise<void>): Promise<Store> {
  const { source, connection, hearing, meetings } = shared;
  const root = `${source.keyPrefix}{${context.namespace}}:`;
  const sender = `${source.database}/${context.system.id()}`;
  const meeting = meetings.get(root) ?? createMeeting(within(source, hearing), `${root}hints`, sender);
  meetings.set(root, meeting);
  let closed = false;
  const replicas = context.replicas ?? null;
  if (replicas !== null) await expectWaiting(connection);
  const reach = createCall(connection, root, replicas);
  const call: Call = async (script, args) => {
    if (closed) throw new LastoutError('CLOSED', 'The store is closed.');
    return reach(script, args);
  };

  const mark = await placeMark(call, () => context.system.id(), connection.where);
  await upgradeLayout(call, context.namespace, connection.where);
  const identity = await openIdentity(call, source, context, connection.where);
  const doubtOf = async (info: string): Promise<string | null> =>
    doubtIn(info, replicas, goodReplicas(info) === null ? null : await wantedReplicas(connection));
  const { give } = meeting;
  const verbs = await redisVerbs({ call, context, mark, identity, doubtOf, sender: meeting.sender, give });
  const own = new Set<() => void>();
  return {
    ...verbs,
    engine: 'redis',
    traits,
    get durability() {
      return replicas === null ? shared.durability : 'replicated';
    },
    subscribe(listener, from) {
      const part = meeting.join(listener, from);
      const leave = (): void => {
        part();
        own.delete(leave);
      };
      own.add(leave);
      return leave;
    },
    async check() {
      if (closed) throw new LastoutError('CLOSED', 'The store is closed.');
      const { durability, warnings, attached } = await inspect(connection);
      shared.durability = durability;
      const writing = await inspectWriting(call, context.system.givenNow(), connection.where);
      const ofReplicas = replicaWarnings({ attached, isCluster: source.isCluster }, replicas, connection.where);
      // These two write what they miss.
      const ofData = writing.some(({ blocks }) => blocks) ? [] : [...(await mark.check()), ...(await identity.check())];
      return [...warnings, ...source.warnings, ...ofReplicas, ...ofData, ...writing];
    },
    async close() {
      if (closed) return;
      closed = true;
      for (const leave of own) leave();
      await release();
    },
  };
}
