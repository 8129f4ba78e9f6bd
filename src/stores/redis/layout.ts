/** Brings the data of a namespace to the layout of now, when it is opened. Several processes may be at it: each call does the next part. */
import { LastoutError } from '../../core/errors.js';
import type { Call } from './call.js';
import { repeatable } from './errors.js';
import { layoutVersion } from './lua/upgrade.js';
import { scripts } from './scripts.js';

export async function upgradeLayout(call: Call, namespace: string, where: string): Promise<void> {
  for (let version = 0; version !== layoutVersion; ) {
    version = Number(await repeatable(call(scripts.upgrade, ['', '', '', '']), where));
    if (version > layoutVersion) throw newer(where, namespace, version);
  }
}

function newer(where: string, namespace: string, found: number): LastoutError {
  const message =
    `${where} holds version ${found} of the layout of namespace "${namespace}", ` +
    `and this lastout knows version ${layoutVersion}: upgrade lastout.`;
  return new LastoutError('STORE_NEWER', message, { found, known: layoutVersion });
}
