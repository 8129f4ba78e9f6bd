/** Empty databases for tests: numbered ones of one server, emptied before they are given out again. And logs that are cut. */
import { readFileSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import type { RedisServer } from '../../scripts/services/redis.mjs';

/** Each place in which test files run one after another has its own numbers. */
const places = 8;

interface Numbered {
  readonly no: number;
  readonly url: string;
}

export function createNumbers(server: string) {
  const place = Number(process.env.VITEST_POOL_ID ?? 1) % places;
  const client = new Redis(server, { lazyConnect: true });
  client.on('error', () => undefined);
  const free: Numbered[] = [];
  let filled: Promise<void> | null = null;

  async function fill(): Promise<void> {
    await client.connect();
    client.stream.unref();
    const [, databases] = (await client.config('GET', 'databases')) as [string, string];
    const each = Math.max(1, Math.floor(Number(databases) / places));
    for (let no = place * each; no < (place + 1) * each; no++) {
      const url = new URL(server);
      url.pathname = `/${no}`;
      free.push({ no, url: url.href });
    }
  }

  async function inUse(): Promise<Set<number>> {
    const [own, list] = (await client.multi().client('ID').client('LIST').exec())!.map(([, answer]) => String(answer));
    const lines = list!.split('\n').filter((line) => line !== '' && !line.startsWith(`id=${own} `));
    return new Set(lines.map((line) => Number(/ db=(\d+)/.exec(line)?.[1])));
  }
  return {
    async take(): Promise<Numbered> {
      await (filled ??= fill());
      for (let tries = 0; tries < 100; tries++) {
        const used = await inUse();
        const index = free.findIndex(({ no }) => !used.has(no));
        if (index >= 0) {
          const [found] = free.splice(index, 1) as [Numbered];
          await client.multi().select(found.no).flushdb('ASYNC').exec();
          return found;
        }
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
      throw new Error('Redis has too few databases for these tests; start it with "databases 512"');
    },
    /** To the end: the longer it is out of use, the surer nobody is connected. */
    giveBack: (numbered: Numbered) => void free.push(numbered),
    close: () => client.disconnect(),
  };
}

/** The file that a server appends to. */
export function logOf({ folder }: Pick<RedisServer, 'folder'>): string {
  const logs = join(folder, 'appendonlydir');
  const files = readFileSync(join(logs, 'appendonly.aof.manifest'), 'latin1').matchAll(/^file (\S+) .*type i/gm);
  return join(logs, [...files].at(-1)![1]!);
}

/** Takes off the log of a server that does not run what it would lose where it syncs late: up to so many bytes, mostly inside of a step. */
export function cutLog(server: Pick<RedisServer, 'folder'>, mostBytes: number): void {
  const log = logOf(server);
  truncateSync(log, Math.max(0, statSync(log).size - Math.floor(Math.random() * mostBytes)));
}
