/** Certificates for tests of TLS, made here: a private authority, and what it signs for a server. Written as DER (X.509). */
import { createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isIP } from 'node:net';

export interface Authority {
  /** PEM: what a client is to trust. */
  readonly certificate: string;
  /** For a server that is reached by this name or address. */
  issue(name: string): { readonly certificate: string; readonly key: string };
}

export function newAuthority(name: string): Authority {
  const key = newKey();
  const issuer = nameOf(name);
  const isAuthority = extension('551d13', sequence(boolean(true)));
  return {
    certificate: certificateOf({ issuer, subject: issuer, of: key, by: key, extensions: [isAuthority] }),
    issue(host) {
      const own = newKey();
      const altName = isIP(host) === 4 ? tagged(0x87, Buffer.from(host.split('.').map(Number))) : tagged(0x82, host);
      const extensions = [extension('551d11', sequence(altName))];
      return {
        certificate: certificateOf({ issuer, subject: nameOf(host), of: own, by: key, extensions }),
        key: own.export({ type: 'pkcs8', format: 'pem' }).toString(),
      };
    },
  };
}

const newKey = (): KeyObject => generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;

interface Parts {
  readonly issuer: Buffer;
  readonly subject: Buffer;
  readonly of: KeyObject;
  readonly by: KeyObject;
  readonly extensions: readonly Buffer[];
}

function certificateOf({ issuer, subject, of, by, extensions }: Parts): string {
  const algorithm = sequence(tagged(0x06, Buffer.from('2a8648ce3d040302', 'hex'))); // ECDSA with SHA-256
  const version = tagged(0xa0, tagged(0x02, Buffer.from([2])));
  const serial = tagged(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)]));
  const validity = sequence(tagged(0x17, '200101000000Z'), tagged(0x17, '491231235959Z'));
  const publicKey = createPublicKey(of).export({ type: 'spki', format: 'der' });
  const listed = tagged(0xa3, sequence(...extensions));
  const body = sequence(version, serial, algorithm, issuer, validity, subject, publicKey, listed);
  const whole = sequence(body, algorithm, bits(sign('sha256', body, by)));
  const lines = whole.toString('base64').match(/.{1,64}/g)!;
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}

function nameOf(commonName: string): Buffer {
  const attribute = sequence(tagged(0x06, Buffer.from('550403', 'hex')), tagged(0x0c, commonName));
  return sequence(tagged(0x31, attribute));
}

function extension(id: string, value: Buffer): Buffer {
  return sequence(tagged(0x06, Buffer.from(id, 'hex')), boolean(true), tagged(0x04, value));
}

const boolean = (value: boolean): Buffer => tagged(0x01, Buffer.from([value ? 0xff : 0]));
const bits = (bytes: Buffer): Buffer => tagged(0x03, Buffer.concat([Buffer.from([0]), bytes]));
const sequence = (...parts: readonly Buffer[]): Buffer => tagged(0x30, Buffer.concat(parts));

function tagged(tag: number, content: Buffer | string): Buffer {
  const bytes = Buffer.from(content as string);
  const { length } = bytes;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), bytes]);
}
