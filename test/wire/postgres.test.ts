// Connections to PostgreSQL that break in every way, and a server that is stopped, under load.
import { Client } from 'pg';
import { test } from 'vitest';
import { postgresStore } from '../../src/stores/postgres/index.js';
import { describeOn } from '../engines.js';
import { privatePostgres, type PostgresServer } from '../services.js';
import { breakWires, type Place, restarts, timeout } from './load.js';
import { postgresProtocol } from './protocol.js';

function placeOn({ url, port }: PostgresServer, name: string): Place {
  return {
    name,
    url,
    port,
    protocol: postgresProtocol,
    factory: postgresStore({ url }),
    async connections() {
      const client = new Client({ connectionString: url });
      await client.connect();
      const sql = "select count(*)::int as n from pg_stat_activity where backend_type = 'client backend'";
      const { rows } = await client.query<{ n: number }>(sql);
      await client.end();
      return rows[0]!.n;
    },
    connectionsPerProcess: 5,
  };
}

describeOn('postgres', 'postgres', () => {
  test('connections that are reset, swallowed, half-open or lose a reply cost no job, and work goes on', {
    timeout,
  }, async () => {
    await breakWires(placeOn(await privatePostgres(), 'broken connections to PostgreSQL'));
  });

  test('an immediate stop of the server costs no acknowledged job, and work goes on once it is back', {
    timeout,
  }, async () => {
    const server = await privatePostgres();
    await restarts(placeOn(server, 'PostgreSQL stopped with -m immediate'), {
      down: () => server.stop('immediate'),
      up: server.start,
    });
  });
});
