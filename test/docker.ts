/** The Docker Engine of the tests: the one that `npm test` has named, else one that goes with the file that needs it. */
import { afterAll } from 'vitest';
import { engineAt } from '../scripts/services/engine.mjs';
import { findService } from '../scripts/services/index.mjs';

const service = await findService('docker');
afterAll(async () => {
  if ('stop' in service) await service.stop();
});

/** False where `npm test` reports it as skipped. */
export const isEngineThere = 'url' in service;

export function engineHost(): string {
  if ('why' in service) throw new Error(`There is no Docker Engine: ${service.why}`);
  return service.url;
}

/** A client of the tests' own, to look at what there is. */
export const engine = () => engineAt(engineHost());
