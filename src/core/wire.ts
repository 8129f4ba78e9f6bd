/** The way to a server: whether others can read along, and whether the server is the one that was meant. */
import type { StoreWarning } from './store.js';

/** By its name alone: nothing is looked up. A socket of the file system has a path in the place of a host. */
const thisMachine =
  /^(|\/.*|(.+\.)?localhost|127(\.\d{1,3}){3}|::1|::ffff:(127(\.\d{1,3}){3}|7f[\da-f]{2}:[\da-f]+))$/i;

/** A password may stand in any part of a URL, coded once or more often. */
export function fullyDecoded(text: string): string {
  try {
    const once = decodeURIComponent(text);
    return once === text ? text : fullyDecoded(once);
  } catch {
    return text;
  }
}

/** A name, an address or the path of a socket. Messages show it: a text that may hold more than a host is none. */
export function isHost(text: string): boolean {
  return /^(\/[^@:?=%]*|[^@:?=/%\s]*|\[?(?=.*:.*:)[\da-f:.]+(%[\w.-]+)?\]?)$/i.test(fullyDecoded(text));
}

/** For a connection without TLS. `advice`: how to have it. */
export function noTlsWarnings(host: string, where: string, advice: string): readonly StoreWarning[] {
  if (thisMachine.test(host.replace(/^\[|\]$/g, ''))) return [];
  const message = `${where} is another host and is reached without TLS: passwords and jobs can be read on the way. ${advice}`;
  return [{ code: 'NO_TLS', message }];
}

export interface Distrust {
  readonly why: string;
  readonly details: { readonly tlsError: string };
}

/** What OpenSSL calls a certificate that it does not trust, as Node gives it on. */
const untrusted =
  /^(CERT_|SELF_SIGNED_CERT_|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_(GET|VERIFY|DECODE|DECRYPT)_|INVALID_(CA|PURPOSE)$|PATH_LENGTH_EXCEEDED)/;

/** Null: TLS is not what it failed for. Trying again does not mend it. */
export function distrustIn(error: unknown): Distrust | null {
  const { code, message } = (error ?? {}) as { readonly code?: unknown; readonly message?: unknown };
  // The words of "pg", which gives no code.
  if (message === 'The server does not support SSL connections') return distrust('NO_TLS', plain);
  if (typeof code !== 'string') return null;
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return distrust(code, 'its certificate is not for this name');
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID')
    return distrust(code, 'its certificate is not valid now; renew it, or set the clock');
  if (untrusted.test(code))
    return distrust(code, 'its certificate is of no known CA; name the file of its CA with sslrootcert in the URL');
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER') return distrust(code, plain);
  return code.startsWith('ERR_SSL_') ? distrust(code, 'the two cannot agree on TLS') : null;
}

const plain = 'it does not speak TLS there';

function distrust(tlsError: string, why: string): Distrust {
  return { why, details: { tlsError } };
}
