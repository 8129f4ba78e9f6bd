// A provider in this process: what it has is in view, and each of its steps may be made to fail or to hang.
import { defineResource, type Lease, type Queue } from '../src/index.js';

type Step = 'create' | 'destroy' | 'list';
type Destroyed = { name: string; info: unknown; attempt: number };

export interface Room {
  readonly size: number;
}

export function provider(kind = 'room', now: () => Date = () => new Date()) {
  const inventory = new Map<string, Date>();
  const calls: string[] = [];
  const destroyed: Destroyed[] = [];
  const seen = {
    inventory,
    calls,
    destroyed,
    /** Before a step has done anything. */
    before: async (_step: Step, _name: string, _signal: AbortSignal): Promise<void> => undefined,
    /** After it has done all. */
    after: async (_step: Step, _name: string): Promise<void> => undefined,
    /** What `list` answers; by default the truth. */
    listed: (): { name: string; createdAt: Date }[] => [...inventory].map(([name, createdAt]) => ({ name, createdAt })),
    names: (): string[] => [...inventory.keys()],
    count: (step: Step): number => calls.filter((call) => call.startsWith(step)).length,
  };
  const resource = defineResource<Room>(kind, {
    async create({ size }, { name, epoch, signal, jobId }) {
      calls.push(`create ${name}`);
      await seen.before('create', name, signal);
      if (inventory.has(name)) throw new Error(`${name} was made twice`);
      inventory.set(name, now());
      await seen.after('create', name);
      return { size, epoch, jobId };
    },
    async destroy({ name, info, attempt, signal }) {
      calls.push(`destroy ${name}`);
      await seen.before('destroy', name, signal);
      destroyed.push({ name, info, attempt });
      inventory.delete(name);
      await seen.after('destroy', name);
    },
    async list(signal) {
      calls.push('list');
      await seen.before('list', '', signal);
      return seen.listed();
    },
  });
  return Object.assign(seen, { resource });
}

/** Never resolves, and rejects when it is told to stop. */
export function hang(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
}

export async function found(
  queue: Queue,
  filter: Parameters<Queue['leases']['find']>[0] = {},
): Promise<readonly Lease[]> {
  return (await queue.leases.find(filter)).items;
}

export async function stateOf(queue: Queue, id: string): Promise<Lease['state'] | undefined> {
  return (await found(queue, { limit: 200 })).find((lease) => lease.id === id)?.state;
}

/** Names by the same store as that of a lease, of leases that never were. */
export function strangerOf(lease: Lease, n = 0): string {
  return `${lease.name.slice(0, -lease.id.length)}${String(n).padStart(20, '0')}`;
}

/** What 0.1.0 would have called it. */
export function formerName({ name, id }: Lease): string {
  return [...name.split('.').slice(0, -2), id].join('.');
}
