/** What the measuring processes have in common. */
import type { Where } from './contender.js';

/** A hundred bytes as JSON. */
export const payload = {
  to: 'ann@example.org',
  template: 'welcome',
  trip: 1_234_567_890,
  note: 'window seat, two bags, dogs',
} as const;

/** Peers are measured with good plans: their tables are analysed after loading, as autovacuum would do in time. */
export async function settle(where: Pick<Where, 'store' | 'at'>): Promise<void> {
  await askPostgres(where, 'analyze');
}

/**
 * What ended a day ago has long been written out, and a server that has run for so long writes its log into files that it
 * has used before: to make a new one keeps everybody waiting.
 */
export async function age(where: Pick<Where, 'store' | 'at'>): Promise<void> {
  await askPostgres(where, 'checkpoint');
}

async function askPostgres({ store, at }: Pick<Where, 'store' | 'at'>, statement: string): Promise<void> {
  if (store !== 'postgres') return;
  const { default: pg } = await import('pg');
  const client = new pg.Client({ connectionString: at });
  await client.connect();
  await client.query(statement);
  await client.end();
}
