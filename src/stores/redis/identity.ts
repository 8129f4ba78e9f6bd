/**
 * The identity of the data of a namespace, and the place in the server where they got it. A server has no number that outlives its
 * restarts, so a copy of its file on another one is not told from it; a copy in another database of it is.
 */
import { copyWarning } from '../../core/identity.js';
import type { StoreContext, StoreWarning } from '../../core/store.js';
import type { Call, Script } from './call.js';
import { repeatable } from './errors.js';
import type { Source } from './source.js';

/** Reads identity and place; sets them where there are none, or where that is asked for. */
export const identityScript: Script = {
  name: 'identity',
  text: `#!lua flags=allow-oom
local key = KEYS[1] .. 'n'
local found = redis.call('HMGET', key, 'identity', 'place')
if found[1] and ARGV[3] == '' then return found end
redis.call('HSET', key, 'identity', ARGV[1], 'place', ARGV[2])
return { ARGV[1], ARGV[2] }
`,
};

/** The same where both are there, of a server that cannot be written, too. */
export const knownScript: Script = {
  name: 'known',
  text: `#!lua flags=no-writes
return redis.call('HMGET', KEYS[1] .. 'n', 'identity', 'place')
`,
};

export interface Identity {
  read(): Promise<string>;
  check(): Promise<readonly StoreWarning[]>;
}

/** Who has the data open when they are lost brings their identity back: what was leased before is then still ours. */
export async function openIdentity(
  call: Call,
  { database, keyPrefix }: Source,
  { system, identity }: StoreContext,
  where: string,
): Promise<Identity> {
  const here = `database ${database}, prefix "${keyPrefix}"`;
  let known = system.id();
  async function ask(how: 'new' | ''): Promise<readonly [string, string]> {
    return (await repeatable(call(identityScript, [known, here, how]), where)) as [string, string];
  }
  /** Writes only what is missing. */
  async function look(): Promise<readonly [string, string]> {
    const [own, place] = (await call(knownScript, [])) as [string | null, string | null];
    return own === null || place === null ? ask('') : [own, place];
  }
  [known] = await ask(identity ?? '');
  return {
    async read() {
      [known] = await look();
      return known;
    },
    async check() {
      const [, noted] = await look();
      return noted === here ? [] : [copyWarning(where, noted, here)];
    },
  };
}
