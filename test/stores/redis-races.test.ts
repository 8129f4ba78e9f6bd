// Races of many connections on Redis. Its keys are audited by many commands, so only while nobody acts.
import { emptyStore } from '../engines.js';
import { races } from './races/race.js';
import { auditKeys, leftovers } from './redis-audit.js';
import { plainClient } from './redis-support.js';

races('redis', async () => {
  const { url, connect } = await emptyStore.redis();
  const client = plainClient(url);
  return {
    connect,
    isSnapshot: false,
    audit: (store) => auditKeys(client, store),
    leftovers: () => leftovers(client),
  };
});
