/** Packages that only some need: loaded when they are first asked for, and named where they are missing. */
import { LastoutError } from '../core/errors.js';

export async function loadPeer<T>(name: string, forWhat: string, load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    const message = `${forWhat} needs the package ${name}, which cannot be loaded: run "npm install ${name}".`;
    throw new LastoutError('DRIVER_MISSING', message, { package: name }, cause);
  }
}
