/** The processes of a crash test: started, killed, stopped, resumed and replaced; what was done to them is in a ledger. */
import { type ChildProcess, fork } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { loadDriver, prepare, single, type SqliteDatabase, type Statement } from '../../src/stores/sqlite/driver.js';
import type { Programs } from './compile.js';
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
  readonly folder: string;
  readonly seed: number;
  /** Jobs of this fleet kill their own workers; that is a kill like any other. */
  readonly selfKills?: boolean;
}

export class Fleet implements Disposable {
  readonly file: string;
  readonly ledgers: string;
  readonly members: Member[] = [];
  /** Processes that ended on their own, and not well. */
  readonly crashes: string[] = [];
  readonly random: Seeded;
  readonly #ledger: Ledger;
  readonly #programs: Programs;
  readonly #selfKills: boolean;
  #db: SqliteDatabase | null = null;

  constructor({ programs, folder, seed, selfKills = false }: FleetOptions) {
    this.file = join(folder, 'jobs.db');
    this.ledgers = join(folder, 'ledgers');
    mkdirSync(this.ledgers);
    this.#ledger = openLedger(this.ledgers, 'fleet');
    this.#programs = programs;
    this.random = seeded(seed);
    this.#selfKills = selfKills;
  }

  get url(): string {
    return `sqlite:${this.file}`;
  }

  startWorker(order: WorkerOrder): Member {
    return this.#start('worker', order, JSON.stringify(order));
  }

  startProducer(): Member {
    return this.#start('producer', null, String(this.random.below(1_000_000)));
  }

  #start(program: 'worker' | 'producer', order: WorkerOrder | null, ...rest: string[]): Member {
    const name = `${program}-${this.members.length + 1}`;
    const child = fork(this.#programs[program], [this.url, this.ledgers, name, ...rest], { execArgv: [] });
    const member: Member = {
      name,
      child,
      order,
      owner: null,
      state: 'starting',
      exited: new Promise((resolve) => {
        child.once('exit', (code, signal) => {
          if (this.#selfKills && signal === 'SIGKILL' && member.state === 'ready') this.#noteKill(member);
          if (member.state !== 'killed' && code !== 0) this.crashes.push(`${name} ended with ${code ?? signal}`);
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
    const db = await this.#reading();
    const claims = prepare(db, 'select count(*) from lastout_claims where owner = ?');
    const from = instant();
    member.child.kill('SIGSTOP');
    // The signal is delivered when the process next runs; until then it may still settle.
    await pause(20);
    const held = countOf(claims, member.owner!) > 0;
    const lapsed = held && (await this.#lapse(db, () => countOf(claims, member.owner!) === 0));
    if (lapsed) this.#ledger.write({ line: 'stop', name: member.name, at: from });
    if (lapsed) this.#ledger.write({ line: 'resume', name: member.name, at: instant() });
    member.child.kill('SIGCONT');
    member.state = 'ready';
    return lapsed;
  }

  async #lapse(db: SqliteDatabase, isOver: () => boolean): Promise<boolean> {
    const haltMs = 500;
    let version = single(db, 'pragma data_version');
    let movedAt = performance.now();
    while (!isOver()) {
      await pause(20);
      const now = single(db, 'pragma data_version');
      if (now !== version) movedAt = performance.now();
      else if (performance.now() - movedAt > haltMs) return false;
      version = now;
    }
    return true;
  }

  async #reading(): Promise<SqliteDatabase> {
    const { DatabaseSync } = await loadDriver();
    this.#db ??= new DatabaseSync(this.file);
    return this.#db;
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
    this.#db?.close();
  }
}

function countOf(statement: Statement, owner: string): number {
  return Number(statement.get(owner)![0]);
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Waits for something that must come about; what it waits for is in the error. */
export async function until(what: string, holds: () => boolean | Promise<boolean>, withinMs = 60_000): Promise<void> {
  const startedAt = performance.now();
  while (!(await holds())) {
    if (performance.now() - startedAt > withinMs) throw new Error(`Waited ${withinMs} ms in vain: ${what}`);
    await pause(20);
  }
}
