// Races of many connections to one SQLite file, whose tables are audited all the time.
import { expect, onTestFinished } from 'vitest';
import { emptyStore } from '../engines.js';
import { races } from './races/race.js';
import { faultsIn, leftovers } from './sqlite-audit.js';
import { connect as connectTo } from './sqlite-support.js';

races('sqlite', async () => {
  const { url, connect } = await emptyStore.sqlite();
  const open = async () => {
    const db = await connectTo(new URL(url).pathname);
    onTestFinished(() => void db.close());
    return db;
  };
  const db = await open();
  return {
    connect,
    isSnapshot: true,
    audit: async () => expect(faultsIn(db)).toEqual([]),
    leftovers: async () => leftovers(db),
    async call() {
      const tx = await open();
      return { tx, begins: ['begin'], run: async (statement) => tx.exec(statement) };
    },
  };
});
