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
export async function settle({ store, at }: Pick<Where, 'store' | 'at'>): Promise<void> {
  if (store !== 'postgres') return;
  const { default: pg } = await import('pg');
  const client = new pg.Client({ connectionString: at });
  await client.connect();
  await client.query('analyze');
  await client.end();
}
