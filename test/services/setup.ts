// Before the tests: the servers that networked stores are tested on. `npm test` names those it has started, and they come
// first; else those of `npm run services` are used, or private ones are started here and go with this run.
import type { TestProject } from 'vitest/node';
import { findService } from '../../scripts/services/index.mjs';

declare module 'vitest' {
  interface ProvidedContext {
    /** Their URLs, or why there is none. */
    services: Readonly<Record<'postgres' | 'redis', { readonly url: string } | { readonly why: string }>>;
  }
}

export default async function services(project: TestProject): Promise<() => Promise<void>> {
  const [postgres, redis] = await Promise.all([serviceOf('postgres'), serviceOf('redis')]);
  project.provide('services', { postgres: wordsOf(postgres), redis: wordsOf(redis) });
  return async () => {
    for (const service of [postgres, redis]) if ('stop' in service) await service.stop();
  };
}

/** LASTOUT_TEST_STORES=memory,sqlite leaves stores out, and starts nothing for them. */
function serviceOf(name: 'postgres' | 'redis'): ReturnType<typeof findService> {
  const stores = process.env['LASTOUT_TEST_STORES'];
  if (stores === undefined || stores.split(',').includes(name)) return findService(name);
  return Promise.resolve({ why: 'left out by LASTOUT_TEST_STORES' });
}

const wordsOf = (service: { url: string } | { why: string }): { url: string } | { why: string } =>
  'url' in service ? { url: service.url } : { why: service.why };
