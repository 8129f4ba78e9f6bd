/** How the verbs reach the server: one script, one round trip, and an error that says whether anything was done. */
import { createHash } from 'node:crypto';
import type { Args, Connection } from './connection.js';
import { ifAllowed, isUnknownScript, repeatable } from './errors.js';

/** `text` begins with `#!lua`, and derives every key from the root, KEYS[1]. One that only reads says `flags=no-writes`. */
export interface Script {
  readonly name: string;
  readonly text: string;
}

/** EVALSHA with KEYS[1] = the namespace root `{name}:`; brings the script along where the server does not know it. */
export type Call = (script: Script, args: Args) => Promise<unknown>;

/** Scripts are constants, so that each is hashed once. */
const hashes = new WeakMap<Script, string>();

function hashOf(script: Script): string {
  let hash = hashes.get(script);
  if (hash === undefined) {
    hash = createHash('sha1').update(script.text).digest('hex');
    hashes.set(script, hash);
  }
  return hash;
}

/** Loaded beforehand: a call that has to bring its script along would be overtaken by those that follow it. */
export async function loadScripts(connection: Connection, scripts: readonly Script[]): Promise<void> {
  const known = await ifAllowed(connection.sendToAll('script', ['exists', ...scripts.map(hashOf)]));
  const missing = scripts.filter((_, index) => known?.some((node) => (node as readonly number[])[index] !== 1));
  await Promise.all(missing.map(({ text }) => ifAllowed(connection.sendToAll('script', ['load', text]))));
}

/**
 * The keys that every script declares: the root, which never exists, and the mark, which does (check.ts). While a slot moves
 * from one node of a cluster to another, each node has a part of the keys, and a script would take its part for all of them.
 * A node refuses a command before it starts if it lacks one of several declared keys of such a slot: with TRYAGAIN, or with
 * ASK, and then the other node says TRYAGAIN. The root is missing on both, so no script runs until the slot has arrived.
 */
const keysOf = (root: string): Args => [2, root, `${root}born`];

export function createCall(connection: Connection, root: string): Call {
  const keys = keysOf(root);
  async function run(script: Script, args: Args): Promise<unknown> {
    try {
      return await connection.send('evalsha', [hashOf(script), ...keys, ...args]);
    } catch (error) {
      // Nothing ran. EVAL goes to the node of the namespace, and the server keeps the script for the next call.
      if (isUnknownScript(error)) return connection.send('eval', [script.text, ...keys, ...args]);
      throw error;
    }
  }
  return (script, args) => {
    const answer = run(script, args);
    return script.text.startsWith('#!lua flags=no-writes') ? repeatable(answer, connection.where) : answer;
  };
}
