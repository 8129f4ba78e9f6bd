/** How the verbs reach the server: one script, one round trip, and an error that says whether anything was done. */
import { createHash } from 'node:crypto';
import type { Args, Behind, Connection } from './connection.js';
import { ifAllowed, isUnknownResult, isUnknownScript, repeatable } from './errors.js';

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

/** Changes nothing, and counts as a write: what came before it has its place in what replicas are sent. */
const touch = `#!lua flags=allow-oom
local mark = redis.call('GET', KEYS[2])
if mark then redis.call('SET', KEYS[2], mark) end
`;

/** Callers rely on the answer. What is done in the background is done again by the next beat or pass. */
const reliedOn: ReadonlySet<string> = new Set(['insert', 'settle', 'move', 'pause', 'pauseSubject']);
/** By these, an outcome that is not known is looked up. */
const lookingUp: ReadonlySet<string> = new Set(['find', 'readClaims']);

/** `replicas`: so many must have what a caller is told; null: none. */
export function createCall(connection: Connection, root: string, replicas: number | null = null): Call {
  const keys = keysOf(root);
  const { confirming } = connection;

  function behind({ name }: Script): Behind | undefined {
    if (replicas === null) return undefined;
    if (reliedOn.has(name) || (lookingUp.has(name) && confirming.isUnsure))
      return (ask) => confirming.confirm(ask, replicas, [touch, ...keys]);
    // A claim that finds nothing promises nothing, and an idle worker is not to write.
    return name === 'claim' ? (ask) => confirming.confirm(ask, replicas, null) : undefined;
  }
  async function run(script: Script, args: Args): Promise<unknown> {
    const confirmed = behind(script);
    try {
      return await connection.send('evalsha', [hashOf(script), ...keys, ...args], confirmed);
    } catch (error) {
      // Nothing ran. EVAL goes to the node of the namespace, and the server keeps the script for the next call.
      if (isUnknownScript(error)) return connection.send('eval', [script.text, ...keys, ...args], confirmed);
      throw error;
    }
  }
  async function write(script: Script, args: Args): Promise<unknown> {
    try {
      return await run(script, args);
    } catch (error) {
      if (isUnknownResult(error)) confirming.unsure();
      throw error;
    }
  }
  const change = replicas === null ? run : write;
  return (script, args) =>
    script.text.startsWith('#!lua flags=no-writes')
      ? repeatable(run(script, args), connection.where)
      : change(script, args);
}
