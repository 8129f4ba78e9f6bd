// Races of many connections on PostgreSQL, whose tables are audited all the time.
import { expect } from 'vitest';
import { emptyStore } from '../engines.js';
import { faultsIn, leftovers } from './postgres-audit.js';
import { plainClient, plainPool } from './postgres-support.js';
import { races } from './races/race.js';

races('postgres', async () => {
  const { url, connect } = await emptyStore.postgres();
  const pool = plainPool(url, { max: 2 });
  return {
    connect,
    isSnapshot: true,
    audit: async () => expect(await faultsIn(pool)).toEqual([]),
    leftovers: async () => Object.keys(await leftovers(pool)),
    async call() {
      const tx = await plainClient(url);
      const begins = ['begin', 'begin', 'begin isolation level repeatable read'];
      return { tx, begins, run: (statement) => tx.query(statement) };
    },
  };
});
