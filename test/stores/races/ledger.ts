/** What was said by the store during a race, and must turn out to be true. */
import assert from 'node:assert/strict';
import type { Ending } from '../../../src/core/ending.js';
import type { Claimed, Inserted, SettleAnswer } from '../../../src/core/store.js';

export class Ledger {
  readonly created = new Set<string>();
  readonly removed = new Set<string>();
  /** Ids of calls whose answer was lost. */
  readonly unsure = new Set<string>();
  /** By claim, the ways in which it was told to have ended. */
  private readonly ended = new Map<string, Set<string>>();
  private readonly claims = new Set<string>();
  readonly counts = new Map<string, number>();

  count(what: string, n = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + n);
  }

  inserted(answers: readonly Inserted[]): void {
    for (const { id, outcome } of answers) {
      this.count(outcome);
      if (outcome === 'created' || outcome === 'replaced') this.created.add(id);
    }
  }

  /** The answer, or null where it was lost: a machine at its limit gives connections up. Nothing else may go wrong. */
  async answered<T>(call: Promise<T>, ids: readonly string[]): Promise<T | null> {
    try {
      return await call;
    } catch (error) {
      if ((error as { code?: string }).code !== 'RESULT_UNKNOWN') throw error;
      this.count('unknown');
      for (const id of ids) this.unsure.add(id);
      return null;
    }
  }

  claimed({ epoch, jobs }: Claimed): void {
    for (const { id } of jobs) {
      assert.ok(!this.claims.has(`${id} ${epoch}`), `job ${id} was claimed twice as ${epoch}`);
      this.claims.add(`${id} ${epoch}`);
    }
    this.count('claimed', jobs.length);
  }

  settled(id: string, epoch: number, ending: Ending, answer: SettleAnswer): void {
    this.count(answer);
    if (answer !== 'ok') return;
    const ways = this.ended.get(`${id} ${epoch}`) ?? new Set();
    this.ended.set(`${id} ${epoch}`, ways.add(ending.kind));
    assert.equal(ways.size, 1, `claim ${epoch} of job ${id} ended as ${[...ways].join(' and ')}`);
  }

  summary(): string {
    const counts = [...this.counts].map(([what, n]) => `${n} ${what}`);
    return counts.toSorted().join(', ');
  }
}
