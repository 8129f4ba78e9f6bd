// The way to a server: TLS with a private CA, servers that are not the one that was meant, and jobs that others could read.
import { once } from 'node:events';
import { chmodSync, chownSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { lesserUser } from '../scripts/services/folders.mjs';
import { freePort } from '../scripts/services/server.mjs';
import { noTlsWarnings } from '../src/core/wire.js';
import { defineJob, open } from '../src/index.js';
import { redisStore } from '../src/stores/redis/index.js';
import { newAuthority } from './certificates.js';
import { type EngineName, temporaryFolder } from './engines.js';
import { emptyPostgres, isServed, privatePostgres, privateRedis, type Served } from './services.js';
import { closedAfterwards, expectCode } from './support.js';
import { pidsOf, plainClient } from './stores/postgres-support.js';

/** Reaches a server of this machine, as localhost does, and is not known to: it stands for another host. */
const otherHost = '0.0.0.0';
const host = '127.0.0.1';

interface Secured {
  /** Without TLS. */
  plain(at?: string): string;
  /** With TLS, trusting what this file says, or what Node trusts. */
  secure(authority: string | null, at?: string): string;
  readonly secret: string;
}

interface Files {
  readonly certificate: string;
  readonly key: string;
  readonly ca: string;
}

const afterwards: (() => void | Promise<void>)[] = [];
const later = (undo: () => void | Promise<void>): void => void afterwards.unshift(undo);
const own = newAuthority('Private CA');
const stranger = newAuthority('Another CA');
let files: Record<'ca' | 'strangers' | 'nothing', string>;

function at(url: string, name: string, change: Partial<Record<'protocol' | 'port', string>> = {}): URL {
  const made = new URL(change.protocol ? url.replace(/^\w+:/, change.protocol) : url);
  return Object.assign(made, { hostname: name, ...(change.port && { port: change.port }) });
}

const servers: { readonly [name in Served]: (files: Files) => Promise<Secured> } = {
  async postgres({ certificate, key, ca }) {
    const settings = { ssl: 'on', ssl_cert_file: certificate, ssl_key_file: key, ssl_ca_file: ca };
    const { url } = await privatePostgres({ settings }, later);
    return {
      secret: new URL(url).password,
      plain: (name = host) => at(url, name).href,
      secure(authority, name = host) {
        const made = at(url, name);
        made.searchParams.set('sslmode', 'verify-full');
        if (authority) made.searchParams.set('sslrootcert', authority);
        return made.href;
      },
    };
  },
  async redis({ certificate, key, ca }) {
    const tlsPort = await freePort();
    const settings = {
      'tls-port': tlsPort,
      'tls-cert-file': certificate,
      'tls-key-file': key,
      'tls-ca-cert-file': ca,
      'tls-auth-clients': 'no',
    };
    const { url, password } = await privateRedis({ appendfsync: 'always', settings }, later);
    return {
      secret: password,
      plain: (name = host) => at(url, name).href,
      secure(authority, name = host) {
        const made = at(url, name, { protocol: 'rediss:', port: String(tlsPort) });
        if (authority) made.searchParams.set('sslrootcert', authority);
        return made.href;
      },
    };
  },
};

/** What a server of another user can read. */
function written(folder: string, name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text, { mode: 0o600 });
  const user = lesserUser();
  if (user) chownSync(path, user.uid, user.gid);
  return path;
}

/** A server that answers what is no TLS. Redis itself says nothing: it waits for the end of the line. */
async function plainPort(): Promise<number> {
  const listening = createServer((socket) => socket.on('error', () => undefined).end('-ERR who is there?\r\n'));
  listening.listen(0, host);
  await once(listening, 'listening');
  onTestFinished(() => void listening.close());
  return (listening.address() as AddressInfo).port;
}

afterAll(async () => {
  for (const undo of afterwards) await undo();
});

const job = defineJob<number, number>('double', { run: ({ input }) => 2 * input });

for (const engine of ['postgres', 'redis'] as const satisfies readonly EngineName[]) {
  describe.skipIf(!isServed(engine))(`TLS on ${engine}`, () => {
    let server: Secured;
    /** The same with a certificate for the address that stands for another host. */
    let other: Secured;
    beforeAll(async () => {
      const folder = temporaryFolder(later);
      chmodSync(folder, 0o755);
      const ca = written(folder, 'ca.pem', own.certificate);
      files = {
        ca,
        strangers: written(folder, 'strangers.pem', stranger.certificate),
        nothing: join(folder, 'nothing.pem'),
      };
      const issued = (name: string): Files => {
        const { certificate, key } = own.issue(name);
        return {
          ca,
          certificate: written(folder, `${name}.pem`, certificate),
          key: written(folder, `${name}.key`, key),
        };
      };
      [server, other] = await Promise.all([servers[engine](issued(host)), servers[engine](issued(otherHost))]);
    });

    it('a job runs over TLS with a private CA that the URL names', async () => {
      const url = server.secure(files.ca);
      const queue = closedAfterwards(await open(url));
      const { id } = await queue.enqueue(job, 21);
      await queue.work([job]);
      expect(await queue.wait(id)).toMatchObject({ state: 'completed', result: 42 });
      expect((await queue.health()).warnings).toEqual([]);
      if (engine === 'postgres') {
        const client = await plainClient(server.plain());
        const pids = await pidsOf(client, 'lastout');
        const { rows } = await client.query('select distinct ssl from pg_stat_ssl where pid = any($1)', [pids]);
        expect(rows).toEqual([{ ssl: true }]);
      }
    });

    it.each([
      ['another CA than the one that is named', () => server.secure(files.strangers), /sslrootcert/],
      ['a CA that nobody has named', () => server.secure(null), /sslrootcert/],
      ['a certificate for another name', () => server.secure(files.ca, 'localhost'), /not for this name/],
    ])('%s is STORE_DENIED, at once and without a secret', async (_, urlOf, words) => {
      const url = urlOf();
      const refusal = await expectCode('STORE_DENIED', () => open(url));
      expect(refusal.message).toMatch(words);
      expect(refusal.message).toContain(new URL(url).port);
      expect(refusal.details).toEqual({ tlsError: expect.stringMatching(/^[A-Z_]+$/) });
      expect(inspect(refusal, { depth: 9, showHidden: true })).not.toContain(server.secret);
    });

    it('a server that does not speak TLS is STORE_DENIED, and says what to do', async () => {
      const url =
        engine === 'postgres'
          ? `${await emptyPostgres()}?sslmode=verify-full`
          : `rediss://${host}:${await plainPort()}`;
      const { message } = await expectCode('STORE_DENIED', () => open(url));
      expect(message).toMatch(/does not speak TLS/);
    });

    it('a file of the CA that is not there is INVALID_URL', async () => {
      const { message } = await expectCode('INVALID_URL', () => open(server.secure(files.nothing)));
      expect(message).toMatch(/sslrootcert.*ENOENT/);
      expect(message).not.toContain(server.secret);
    });

    it('another host without TLS is a warning of health; this machine and TLS are none', async () => {
      const warned = closedAfterwards(await open(other.plain(otherHost)));
      const { ok, warnings } = await warned.health();
      expect({ ok, warnings }).toMatchObject({ ok: true, warnings: [{ code: 'NO_TLS' }] });
      expect(warnings[0]!.message).toContain(otherHost);
      expect(warnings[0]!.message).not.toContain(other.secret);
      for (const url of [other.plain(), other.secure(files.ca, otherHost)]) {
        const quiet = closedAfterwards(await open(url, { namespace: 'quiet' }));
        expect((await quiet.health()).warnings).toEqual([]);
      }
    });
  });
}

describe.skipIf(!isServed('redis'))('TLS on redis, by other words', () => {
  it('options with another host warn as a URL does', async () => {
    const { port, password } = await privateRedis({ appendfsync: 'always' });
    const queue = closedAfterwards(await open(redisStore({ options: { host: otherHost, port, password } })));
    expect((await queue.health()).warnings).toMatchObject([{ code: 'NO_TLS' }]);
  });

  it.each([
    'redis://localhost/0?sslrootcert=ca.pem',
    'rediss://localhost/0?sslrootcert=',
    'rediss://localhost/0?sslrootcert=a&sslrootcert=b',
    'rediss://localhost/0?sslcert=ca.pem',
    'rediss://localhost/0?tls=secret',
  ])('%s is refused', async (url) => {
    const { message } = await expectCode('INVALID_URL', () => redisStore({ url }));
    expect(message).toMatch(/rediss:\/\/.*sslrootcert/);
  });
});

describe('which hosts are this machine', () => {
  it.each([
    ...['localhost', 'LOCALHOST', 'db.localhost', '127.0.0.1', '127.9.9.9', '::1', '[::1]', '::ffff:127.0.0.1'],
    ...['::ffff:7f00:1', '/run/postgresql', ''],
  ])('%j is', (name) => {
    expect(noTlsWarnings(name, 'The server', 'Add it.')).toEqual([]);
  });
  it.each([
    'db',
    'db.example',
    'localhost.example',
    '10.0.0.1',
    '127.example',
    '127.0.0.1.example',
    'fe80::1',
    '::ffff:a00:1',
  ])('%j is not', (name) => {
    expect(noTlsWarnings(name, 'The server', 'Add it.')).toMatchObject([{ code: 'NO_TLS' }]);
  });
});
