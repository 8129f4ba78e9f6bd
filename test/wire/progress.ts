/** How far a process has got, as its ledger tells it. */
import { closeSync, existsSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { type Fleet, type Member, until } from '../crash/fleet.js';
import type { Line } from '../crash/ledger.js';

/** Its own steps: claims that a worker has started jobs of, batches that a producer has had acknowledged. */
export class Progress implements Disposable {
  readonly #file: string;
  readonly #name: string;
  readonly #fleet: Fleet;
  #fd: number | null = null;
  #offset = 0;
  #rest = '';
  /** The newest claim or batch, and how many there were. */
  #newest = 0;
  #steps = 0;

  constructor(fleet: Fleet, { name }: Member) {
    this.#fleet = fleet;
    this.#name = name;
    this.#file = join(fleet.ledgers, `${name}.ledger`);
  }

  get steps(): number {
    this.#read();
    return this.#steps;
  }

  #read(): void {
    if (this.#fd === null && !existsSync(this.#file)) return;
    this.#fd ??= openSync(this.#file, 'r');
    const buffer = Buffer.alloc(65_536);
    for (let n; (n = readSync(this.#fd, buffer, 0, buffer.length, this.#offset)) > 0; this.#offset += n)
      this.#rest += buffer.toString('latin1', 0, n);
    const lines = this.#rest.split('\n');
    this.#rest = lines.pop()!;
    for (const text of lines) this.#count(JSON.parse(text) as Line);
  }

  #count(line: Line): void {
    const step = line.line === 'start' ? line.epoch : line.line === 'acked' ? line.at : 0;
    if (step <= this.#newest) return;
    this.#newest = step;
    this.#steps += 1;
  }

  /**
   * Resolves when the process has made steps that it could not make without its server, and says how long that took.
   * The first ones may have been on their way before.
   */
  async resumed(what: string, withinMs: number): Promise<number> {
    const [since, before] = [performance.now(), this.steps];
    await until(`${this.#name} goes on after ${what}`, () => this.steps >= before + 3, withinMs, this.#fleet);
    return performance.now() - since;
  }

  [Symbol.dispose](): void {
    if (this.#fd !== null) closeSync(this.#fd);
  }
}
