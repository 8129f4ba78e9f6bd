/** A plain job as stores are given it, with an id of its own also among those of other processes. */
import type { NewJob } from '../../src/core/store.js';
import { createSystem } from '../../src/system.js';
import { newJob as sketched } from '../../src/testing/store-cases/bench.js';

const system = createSystem();

export function newJob(fields: Partial<NewJob> = {}): NewJob {
  return { ...sketched(), id: system.id(), ...fields };
}
