/** What is stored in clear beside coded texts, because the library itself says it: known by its words, so that nothing else passes. */
import type { JobError } from '../core/job.js';
import type { LogLine } from '../core/store.js';

const resultError: JobError = {
  code: 'RESULT_INVALID',
  message: 'The handler finished, but the codec could not encode its result',
};
const errorError: JobError = {
  code: 'UNSERIALIZABLE',
  message: 'The attempt failed, and the codec could not encode its error',
};

/** In place of what the codec could not encode. */
export const resultLost = JSON.stringify(resultError);
export const unencodable = JSON.stringify(errorError);
export const lineLost = { message: 'The codec could not encode this line', fields: null };

/** By their codes: what the codec and the stores write as the message of an error. */
const words: { readonly [code: string]: RegExp } = {
  EXPIRED: /^Not started within its ttl of \d+ ms$/,
  STALLED: /^Its worker went silent \d+ times? while it ran$/,
  REPLACED: /^Replaced by newer job$/,
  SUPERSEDED: /^Job [A-Za-z0-9._:-]{1,128} took its deduplication slot while it ran$/,
  CANCELLED: /^Removed$/,
  RESULT_INVALID: new RegExp(`^${resultError.message}$`),
  UNSERIALIZABLE: new RegExp(`^${errorError.message}$`),
};

export function isOurs(code: string | undefined, message: string): boolean {
  return code !== undefined && Object.hasOwn(words, code) && words[code]!.test(message);
}

/** The line in place of one that could not be encoded, and the one after which a log is full. */
export function isOurLine({ message, fields }: LogLine): boolean {
  return fields === null ? message === lineLost.message : message === 'truncated' && fields === '{"truncated":true}';
}
