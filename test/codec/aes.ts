// AES-256-GCM as a codec: what docs/codec.md shows, and what the tests run with.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { Codec, TextPlace } from '../../src/index.js';

/** What a text is bound to; of one that 0.1.0 has written, nothing. */
const boundTo = ({ id, field }: TextPlace): Buffer => Buffer.from(`${field} ${id}`.trim());

/** The first key encodes; all of them decode. A text begins with the name of its key. */
export function aesGcm(keys: Readonly<Record<string, Buffer>>): Codec {
  const [current] = Object.keys(keys);
  return {
    encode(text, of) {
      const iv = randomBytes(12);
      const cipher = createCipheriv('aes-256-gcm', keys[current!]!, iv).setAAD(boundTo(of));
      const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
      return `${current}.${Buffer.concat([iv, cipher.getAuthTag(), body]).toString('base64url')}`;
    },
    decode(text, of) {
      const dot = text.indexOf('.');
      const key = keys[text.slice(0, dot)];
      if (!key) throw new Error(`there is no key "${text.slice(0, dot)}"`);
      const bytes = Buffer.from(text.slice(dot + 1), 'base64url');
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12));
      decipher.setAAD(boundTo(of)).setAuthTag(bytes.subarray(12, 28));
      return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString('utf8');
    },
  };
}

export const newKey = (): Buffer => randomBytes(32);
