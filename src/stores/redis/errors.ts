/** Errors of the server and of ioredis in our words. What they carry of commands (payloads, passwords) stays behind. */
import { type Code, LastoutError } from '../../core/errors.js';
import { bareError, masked } from '../../core/masked.js';
import { distrustIn } from '../../core/wire.js';

/** The server answered with an error. */
function isReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError';
}

/** The word that a server's error begins with. */
function wordOf(error: unknown): string {
  return isReply(error) ? (/^[A-Z]+/.exec(error.message)?.[0] ?? '') : '';
}

export function isUnknownScript(error: unknown): boolean {
  return error instanceof LastoutError && error.details?.['redisError'] === 'NOSCRIPT';
}

/** What it named is not there any more, and nothing was done (`sameData` in lua/limits.ts). */
export function isLostData(error: unknown): boolean {
  return error instanceof LastoutError && error.details?.['redisError'] === 'LOST';
}

/** A cluster is moving the namespace to another node, and nothing was done. */
export function isMoving(error: LastoutError): boolean {
  return error.details?.['redisError'] === 'TRYAGAIN';
}

const clusterAdvice = 'give it as redisStore({ client }) with an ioredis Cluster';

/** What the server says before it does anything: https://redis.io/docs/latest/develop/reference/protocol-spec/ */
const refusals: { readonly [word: string]: readonly [Code, string] } = {
  OOM: ['STORE_FULL', 'has no memory left (maxmemory)'],
  READONLY: ['STORE_READONLY', 'cannot be written: it is a replica; connect to the primary'],
  NOAUTH: ['STORE_DENIED', 'wants a password'],
  WRONGPASS: ['STORE_DENIED', 'does not accept the user name or the password'],
  NOPERM: ['STORE_DENIED', 'does not let this user do it; see docs/stores.md for what the user needs'],
  DENIED: ['STORE_DENIED', 'runs in protected mode and takes no connections from here'],
  LOADING: ['STORE_UNAVAILABLE', 'is still loading its data'],
  BUSY: ['STORE_UNAVAILABLE', 'is busy with a script of somebody else'],
  MASTERDOWN: ['STORE_UNAVAILABLE', 'is a replica that has lost its primary'],
  MISCONF: ['STORE_UNAVAILABLE', 'cannot write to its disk and takes no changes'],
  NOREPLICAS: ['STORE_UNAVAILABLE', 'has too few replicas and takes no changes'],
  CLUSTERDOWN: ['STORE_UNAVAILABLE', 'is part of a cluster that is down'],
  TRYAGAIN: ['STORE_UNAVAILABLE', 'is moving the namespace to another node'],
  MOVED: ['STORE_UNAVAILABLE', `is part of a cluster, and the namespace is on another node: ${clusterAdvice}`],
  ASK: ['STORE_UNAVAILABLE', `is part of a cluster, and the namespace is on another node: ${clusterAdvice}`],
  CROSSSLOT: ['STORE_UNAVAILABLE', `is part of a cluster: ${clusterAdvice}`],
  WRONGTYPE: ['STORE_UNAVAILABLE', 'has a key of another program in this namespace; choose another namespace'],
  LOST: ['STORE_UNAVAILABLE', 'has lost the data of this namespace'],
  NOSCRIPT: ['STORE_UNAVAILABLE', 'does not know the script'],
};

/** The rest of what a server says passes by itself. */
const lasting: ReadonlySet<unknown> = new Set(['MOVED', 'ASK', 'CROSSSLOT', 'WRONGTYPE']);

export function mayComeUp({ code, details }: LastoutError): boolean {
  return (code === 'STORE_UNAVAILABLE' || code === 'RESULT_UNKNOWN') && !lasting.has(details?.['redisError']);
}

/** ioredis had no connection to write to. */
export function isUnsent(error: unknown): boolean {
  return !isReply(error) && /isn't writeable|isn't ready/.test(textOf(error));
}

/** ioredis gave up, and nothing that it wrote before was done. */
const undone = /startup nodes/;
/** So did it here: nodes sent it to one another, as they do while a slot moves. */
const sentAround = /Too many Cluster redirections/;

/** An error raised inside of a script that had begun: how far it came is not known. */
const insideScript = /on @user_script/;

/** What became of a command that was handed to ioredis. */
export function translate(error: unknown, where: string): LastoutError {
  if (error instanceof LastoutError) return error;
  if (isReply(error)) return refused(error, where);
  if (isUnsent(error) || undone.test(textOf(error))) return unreachable(where, error);
  if (sentAround.test(textOf(error))) return refusedWith('TRYAGAIN', textOf(error), where, error);
  const message = `${where} was lost before it answered: whether it was done is not known. Look before you repeat it.`;
  return new LastoutError('RESULT_UNKNOWN', `${message} (${textOf(error)})`, undefined, bare(error));
}

function refusedWith(word: string, message: string, where: string, error: unknown): LastoutError {
  const [code, why] = refusals[word]!;
  return new LastoutError(code, `${where} ${why}. (Redis: ${message})`, { redisError: word }, bare(error));
}

function refused(error: Error, where: string): LastoutError {
  const word = wordOf(error);
  const details = { redisError: word };
  if (Object.hasOwn(refusals, word)) return refusedWith(word, error.message, where, error);
  if (insideScript.test(error.message)) {
    const message = `${where} broke a script off: whether it was done is not known. (Redis: ${error.message})`;
    return new LastoutError('RESULT_UNKNOWN', message, details, bare(error));
  }
  return new LastoutError('STORE_UNAVAILABLE', `${where} refused. (Redis: ${error.message})`, details, bare(error));
}

export function isUnknownResult(error: unknown): error is LastoutError {
  return error instanceof LastoutError && error.code === 'RESULT_UNKNOWN';
}

/** It was done, or nobody knows; what is certain is that too few have it to outlive the server. */
export function unconfirmed(where: string, replicas: number, cause?: unknown): LastoutError {
  const message =
    `${where}: ${replicas === 1 ? 'no replica has' : `fewer than ${replicas} replicas have`} said in time that it has it, ` +
    'so whether it would outlive a failover is not known. Look before you repeat it.';
  return new LastoutError('RESULT_UNKNOWN', message, { replicas }, bare(cause));
}

/** Nothing was sent. */
export function unreachable(where: string, cause: unknown): LastoutError {
  const why = cause === null ? 'it does not answer' : textOf(cause);
  return new LastoutError('STORE_UNAVAILABLE', `${where} cannot be reached: ${why}.`, undefined, bare(cause));
}

/** Of what may simply be done again: that its answer was lost means no more than that there is none. */
export async function repeatable<T>(answer: Promise<T>, where: string): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (!isUnknownResult(error)) throw error;
    throw new LastoutError('STORE_UNAVAILABLE', `${where} was lost before it answered.`, undefined, error);
  }
}

/** Null: the server answers, and does not let this user ask, or does not know the question. */
export async function ifAllowed<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    const word = error instanceof LastoutError ? error.details?.['redisError'] : undefined;
    if (word === 'NOPERM' || word === 'ERR') return null;
    throw error;
  }
}

/** The greeting failed: null where it is nothing that another try would not mend. */
export function refusedGreeting(error: unknown, where: string): LastoutError | null {
  const ofNode = (error as { lastNodeError?: unknown } | null)?.lastNodeError;
  if (ofNode) return refusedGreeting(ofNode, where);
  const distrust = distrustIn(error);
  if (distrust) {
    const message = `${where} is not connected to: ${distrust.why}. (${textOf(error)})`;
    return new LastoutError('STORE_DENIED', message, distrust.details, bare(error));
  }
  if (!isReply(error)) return null;
  const known = refused(error, where);
  if (known.code === 'STORE_DENIED') return known;
  if (!/DB index|SELECT is not allowed/i.test(error.message)) return null;
  const message = `${where} has no such database; check the number after the host. (Redis: ${error.message})`;
  return new LastoutError('STORE_DENIED', message, undefined, bare(error));
}

/** Where several addresses were tried, the message is empty and the code says it. */
function textOf(error: unknown): string {
  // How our settings make ioredis say that the connection was lost.
  if (error instanceof Error && error.name === 'MaxRetriesPerRequestError') return 'Connection is closed';
  const { message, code, lastNodeError } = (error ?? {}) as {
    message?: unknown;
    code?: unknown;
    lastNodeError?: unknown;
  };
  const text = masked(typeof message === 'string' && message !== '' ? message : String(code ?? error));
  return lastNodeError ? `${text} ${textOf(lastNodeError)}` : text.replace(/\.$/, '');
}

/** The error without its command, whose arguments are payloads or a password. */
function bare(error: unknown): Error | undefined {
  return error === null || error === undefined ? undefined : bareError(error, textOf(error));
}
