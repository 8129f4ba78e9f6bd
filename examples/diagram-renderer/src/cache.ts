import { LastoutError, type Queue } from 'lastout';
import type { Config } from './config.js';
import type { ClaimedJob, Rendered } from './job-store.js';

export interface CachedOutput {
  readonly contentType: string;
  readonly bytes: Buffer;
  readonly expiresAt: Date | null;
}

export interface Cache {
  /** `data` is base64, so that a cache may be anything that keeps text. Answers the short link. */
  store(data: string, contentType: string, job: ClaimedJob): Promise<string>;
  /** The short link of this input, as long as it leads somewhere. */
  find(inputHash: string): Promise<string | null>;
  /** Null: unknown or expired. */
  get(shortlink: string): Promise<CachedOutput | null>;
}

/** Keeps outputs as artifacts of their jobs: they expire by themselves, and never outlive their job. */
export function createCache(queue: Queue, config: Config): Cache {
  return {
    async store(data, contentType, { artifact }) {
      const { shortLink } = await artifact.put('output', Buffer.from(data, 'base64'), {
        kind: 'cache',
        contentType,
        ttl: config.cacheTtlMs,
        shortLink: { length: 8 }, // as its document has it; the default is 17
      });
      if (shortLink === null) throw new Error('The output has no short link');
      return shortLink;
    },

    async find(inputHash) {
      const { items } = await queue.find({ subject: `diagram:${inputHash}`, state: 'completed', limit: 1 });
      const shortlink = (items[0]?.result as Rendered | undefined)?.shortlink;
      return shortlink !== undefined && (await queue.artifacts.byLink(shortlink)) ? shortlink : null;
    },

    async get(shortlink) {
      if (!/^[A-Za-z0-9_-]{1,64}$/.test(shortlink)) return null;
      const output = await queue.artifacts.byLink(shortlink);
      if (!output) return null;
      try {
        const chunks: Uint8Array[] = [];
        for await (const chunk of await queue.artifacts.read(output.id)) chunks.push(chunk);
        return { contentType: output.contentType, bytes: Buffer.concat(chunks), expiresAt: output.expiresAt };
      } catch (error) {
        // It expired, and a sweep was faster than this reader.
        if (error instanceof LastoutError && (await queue.artifacts.byLink(shortlink)) === null) return null;
        throw error;
      }
    },
  };
}
