/** The processes of a crash test: started, killed, stopped, resumed and replaced; what was done to them is in a ledger. */
import { type ChildProcess, fork } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Store } from '../../src/core/store.js';
import type { Code } from '../../src/index.js';
import type { Programs } from '../programs.js';
import { instant, type Ledger, openLedger } from './ledger.js';
import { type Seeded, seeded } from './seeded.js';
import type { WorkerOrder } from './worker.js';

export interface Member {
  readonly name: string;
  readonly child: ChildProcess;
  readonly order: WorkerOrder | null;
  /** Random per worker start; null: not ready yet, or a producer. */
  owner: string | null;
  state: 'starting' | 'ready' | 'stopped' | 'killed' | 'gone';
  readonly exited: Promise<void>;
}

export interface FleetOptions {
  readonly programs: Programs;
  /** For the ledgers. */
  readonly folder: string;
  readonly url: string;
  /** The same store, in this process. */
  readonly store: Store;
  readonly seed: number;
  /** Jobs of this fleet kill their own workers; that is a kill like any other. */
  readonly selfKills?: boolean;
}

export class Fleet implements Disposable {
  readonly ledgers: string;
  readonly members: Member[] = [];
  /** Processes that ended on their own, and not well. */
  readonly crashes: string[] = [];
  readonly random: Seeded;
  readonly #url: string;
  readonly #store: Store;
  readonly #ledger: Ledger;
  readonly #programs: Programs;
  readonly #selfKills: boolean;

  constructor({ programs, folder, url, store, seed, selfKills = false }: FleetOptions) {
    this.ledgers = join(folder, 'ledgers');
    mkdirSync(this.ledgers);
    this.#ledger = openLedger(this.ledgers, 'fleet');
    this.#programs = programs;
    this.random = seeded(seed);
    this.#url = url;
    this.#store = store;
    this.#selfKills = selfKills;
  }

  startWorker(order: WorkerOrder, url = this.#url): Member {
    return this.#start('worker', url, order, JSON.stringify(order));
  }

  /** `tolerates`: codes of refusals that it may meet. */
  startProducer(url = this.#url, tolerates: readonly Code[] = []): Member {
    return this.#start('producer', url, null, String(this.random.below(1_000_000)), ...tolerates);
  }

  #start(program: 'worker' | 'producer', url: string, order: WorkerOrder | null, ...rest: string[]): Member {
    const name = `${program}-${this.members.length + 1}`;
    const child = fork(this.#programs[program], [url, this.ledgers, name, ...rest], {
      execArgv: [],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    let lastWords = '';
    child.stderr!.on('data', (data: Buffer) => {
      lastWords = (lastWords + data.toString()).slice(-2_000);
    });
    const member: Member = {
      name,
      child,
      order,
      owner: null,
      state: 'starting',
      exited: new Promise((resolve) => {
        child.once('exit', (code, signal) => {
          if (this.#selfKills && signal === 'SIGKILL' && member.state === 'ready') this.#noteKill(member);
          if (member.state !== 'killed' && code !== 0)
            this.crashes.push(`${name} ended with ${code ?? signal}: ${lastWords}`);
          member.state = 'gone';
          resolve();
        });
      }),
    };
    child.once('message', (message: { owner: string | null }) => {
      member.owner = message.owner;
      if (member.state === 'starting') member.state = 'ready';
    });
    this.members.push(member);
    return member;
  }

  get readyWorkers(): Member[] {
    return this.members.filter(({ order, state }) => order !== null && state === 'ready');
  }

  kill(member: Member): void {
    this.#noteKill(member);
    member.child.kill('SIGKILL');
  }

  #noteKill(member: Member): void {
    member.state = 'killed';
    this.#ledger.write({ line: 'kill', name: member.name, at: instant() });
  }

  /**
   * Stops a worker until all its claims have lapsed, and lets it go on: true. False: it held nothing, or the others
   * came to a halt as well, since it was stopped in the middle of a write; then it goes on at once.
   */
  async stopPastLease(member: Member): Promise<boolean> {
    member.state = 'stopped'; // before anything is awaited: nobody else may choose it now
    const holds = async (): Promise<boolean> =>
      (await this.#store.readClaims(member.owner!)).some(({ ids }) => ids.length > 0);
    const from = instant();
    member.child.kill('SIGSTOP');
    // The signal is delivered when the process next runs; until then it may still settle.
    await pause(20);
    const lapsed = (await holds()) && (await this.#lapse(async () => !(await holds())));
    if (lapsed) this.#ledger.write({ line: 'stop', name: member.name, at: from });
    if (lapsed) this.#ledger.write({ line: 'resume', name: member.name, at: instant() });
    member.child.kill('SIGCONT');
    member.state = 'ready';
    return lapsed;
  }

  async #lapse(isOver: () => Promise<boolean>): Promise<boolean> {
    const haltMs = 500;
    let cursor = await this.#lastEvent();
    let movedAt = performance.now();
    while (!(await isOver())) {
      await pause(20);
      const now = await this.#lastEvent();
      if (now !== cursor) movedAt = performance.now();
      else if (performance.now() - movedAt > haltMs) return false;
      cursor = now;
    }
    return true;
  }

  async #lastEvent(): Promise<string> {
    return (await this.#store.readEvents({ after: null, limit: 1 })).cursor;
  }

  /** Asks them to close, and waits until they have. */
  async close(members: readonly Member[]): Promise<void> {
    for (const { child, state } of members) if (state !== 'gone' && state !== 'killed') child.send('close');
    await Promise.all(members.map(({ exited }) => exited));
  }

  [Symbol.dispose](): void {
    for (const member of this.members) {
      if (member.state === 'gone') continue;
      member.state = 'killed';
      member.child.kill('SIGKILL');
    }
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Waits for something that must come about; what it waits for is in the error. */
export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  withinMs = 60_000,
  fleet?: Fleet,
): Promise<void> {
  const startedAt = performance.now();
  while (!(await holds())) {
    if (fleet && fleet.crashes.length > 0) throw new Error(`While waiting: ${what}: ${fleet.crashes.join('\n')}`);
    if (performance.now() - startedAt > withinMs) throw new Error(`Waited ${withinMs} ms in vain: ${what}`);
    await pause(20);
  }
}
