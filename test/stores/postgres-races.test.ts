// Races of many connections on PostgreSQL, whose tables are audited all the time.
import { expect } from 'vitest';
import { postgresStore } from '../../src/stores/postgres/index.js';
import { emptyPostgres, provokedPostgres } from '../services.js';
import { faultsIn, leftovers } from './postgres-audit.js';
import { plainClient, plainPool } from './postgres-support.js';
import { type Arena, races } from './races/race.js';

async function arenaOn(url: string): Promise<Arena> {
  const pool = plainPool(url, { max: 2 });
  return {
    connect: () => postgresStore({ url }),
    isSnapshot: true,
    audit: async () => expect(await faultsIn(pool)).toEqual([]),
    leftovers: async () => Object.keys(await leftovers(pool)),
  };
}

races('postgres', async () => arenaOn(await emptyPostgres()));

// Callers choose the order in which a transaction meets others, and these choose any: some wait in a circle.
races(
  'postgres',
  async () => {
    const url = await provokedPostgres();
    return {
      ...(await arenaOn(url)),
      async call() {
        const tx = await plainClient(url);
        const begins = ['begin', 'begin', 'begin isolation level repeatable read'];
        return { tx, begins, run: (statement) => tx.query(statement) };
      },
    };
  },
  'races on postgres with transactions of callers',
);
