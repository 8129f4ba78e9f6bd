/**
 * A provider of rooms, in a process of its own: node provider.js SEED. It fails, hangs, forgets, lists late and lies, as far
 * as it is told to. It knows who holds what, and keeps a list of what must never happen.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { leaveWithParent } from './parent.js';
import { seeded } from './seeded.js';

export type Chaos = 'everything' | 'lists' | 'nothing';

export type ToProvider =
  | { readonly chaos: Chaos }
  | { readonly dead: number }
  | { readonly report: true }
  | { readonly leave: true };

export interface ProviderReport {
  readonly inventory: readonly string[];
  readonly made: number;
  /** How often it misbehaved, and how. */
  readonly tricks: { readonly [trick: string]: number };
  /** What must never happen. */
  readonly faults: readonly string[];
}

const random = seeded(Number(process.argv[2]));
const inventory = new Map<string, number>();
/** Who holds what, by the number of its process. */
const held = new Map<string, number>();
const made = new Set<string>();
const tricks: { [trick: string]: number } = {};
const faults: string[] = [];
const hanging = new Set<ServerResponse>();
/** What was there a second ago, and how often in a row something was left out. */
let earlier: [string, number][] = [];
const leftOut = new Map<string, number>();
let chaos: Chaos = 'everything';

const others = ['somebody-elses', 'other.room.00000000000000000000', 'lastout.desk.00000000000000000000'];
for (const name of others) inventory.set(name, 0);
setInterval(() => {
  earlier = [...inventory];
}, 1_000).unref();

/** One in so many times. */
function plays(trick: string, oneIn: number, when: readonly Chaos[] = ['everything']): boolean {
  if (!when.includes(chaos) || random.below(oneIn) > 0) return false;
  tricks[trick] = (tricks[trick] ?? 0) + 1;
  return true;
}

function answer(response: ServerResponse, status: number, body: unknown = null): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
function hang(response: ServerResponse): void {
  hanging.add(response);
}

function create(name: string, response: ServerResponse): void {
  const make = (): void => {
    if (made.has(name)) faults.push(`${name} was made twice`);
    made.add(name);
    inventory.set(name, Date.now());
  };
  if (plays('create fails', 20)) return answer(response, 503);
  if (plays('create hangs and comes late', 100)) {
    setTimeout(make, 2_000);
    return hang(response);
  }
  make();
  if (plays('the reply of create is lost', 20)) return void response.destroy();
  answer(response, 201, { name });
}

function destroy(name: string, response: ServerResponse): void {
  if (held.has(name)) faults.push(`${name} was destroyed while it was held`);
  if (plays('destroy fails', 10)) return answer(response, [401, 403, 500][random.below(3)]!);
  if (plays('destroy hangs', 100)) return hang(response);
  if (plays('destroy is forgotten', 40)) return answer(response, 200);
  const wasThere = inventory.delete(name);
  if (plays('the reply of destroy is lost', 20)) return void response.destroy();
  answer(response, wasThere ? 200 : 404);
}

function list(response: ServerResponse): void {
  const lists = ['everything', 'lists'] as const;
  if (plays('list fails', 5, lists)) return answer(response, 500);
  if (plays('list is cut off', 10, lists)) return answer(response, 200, { names: [...inventory.keys()].slice(0, 3) });
  const seen = plays('list is late', 3, lists) ? earlier : [...inventory];
  const told = seen.filter(([name]) => {
    const times = leftOut.get(name) ?? 0;
    const out = times < 2 && plays('list leaves something out', 5, lists);
    leftOut.set(name, out ? times + 1 : 0);
    return !out;
  });
  const age = plays('list lies about ages', 3, lists) ? 3_600_000 : 0;
  answer(
    response,
    200,
    told.map(([name, at]) => ({ name, createdAt: at - age })),
  );
}

function hold(name: string, pid: number, response: ServerResponse): void {
  if (!inventory.has(name)) faults.push(`${name} is held and not there`);
  held.set(name, pid);
  answer(response, 200);
}

const server = createServer((request, response) => {
  const url = new URL(request.url!, 'http://localhost');
  const name = url.searchParams.get('name') ?? '';
  request.resume();
  if (url.pathname === '/create') return create(name, response);
  if (url.pathname === '/destroy') return destroy(name, response);
  if (url.pathname === '/list') return list(response);
  if (url.pathname === '/hold') return hold(name, Number(url.searchParams.get('pid')), response);
  held.delete(name);
  answer(response, 200);
});

const leave = leaveWithParent();
process.on('message', (message: ToProvider) => {
  if ('dead' in message) for (const [name, pid] of held) if (pid === message.dead) held.delete(name);
  if ('chaos' in message) {
    chaos = message.chaos;
    for (const response of hanging) response.destroy();
    hanging.clear();
  }
  if ('report' in message)
    process.send!({ inventory: [...inventory.keys()], made: made.size, tricks, faults } satisfies ProviderReport);
  if ('leave' in message) {
    server.closeAllConnections();
    server.close();
    leave();
  }
});
server.listen(0, '127.0.0.1', () => process.send!({ port: (server.address() as AddressInfo).port }));
