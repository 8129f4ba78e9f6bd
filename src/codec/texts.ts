/** One text through the codec and back. What went in is marked; what cannot come back says why, and harms nobody else. */
import { type Codec, codedMark, isCoded, lostText, whyUnreadable } from '../core/coded.js';
import { LastoutError } from '../core/errors.js';
import type { JobError, Logger } from '../core/job.js';
import { describeThrown } from '../core/thrown.js';

/** As long as the message of an event is. */
const briefMax = 200;

export interface Texts {
  /** Refuses with UNSERIALIZABLE what the codec refuses. */
  seal(text: string, what: string): string;
  /** `seal` where nothing may fail: null, and a line in the log. */
  trySeal(text: string, what: string): string | null;
  /** A JSON text. A plain one comes back as it is. */
  open(text: string): string;
  /** A message in a place where the store itself may write one: its code beside it is then the store's. */
  sealReason(reason: string): string;
  openReason(reason: string): string;
  /** JSON of an error → JSON of `{ message: coded whole }`, and what an event shows of it. */
  sealError(error: string): { readonly error: string; readonly brief?: string };
  openError<E extends { readonly message: string }>(error: E): E;
}

export function textsOf(codec: Codec, logger: Logger): Texts {
  function seal(text: string, what: string): string {
    let coded: unknown;
    try {
      coded = codec.encode(text);
    } catch (error) {
      throw refused(what, describeThrown(error).message, error);
    }
    if (typeof coded !== 'string') throw refused(what, `it returned ${typeof coded} instead of text`);
    if (coded.includes('\0') || !coded.isWellFormed())
      throw refused(what, 'its text has a NUL character or a lone surrogate, which not every store can keep');
    return codedMark + coded;
  }

  function open(text: string): string {
    if (!isCoded(text)) return text;
    try {
      const plain: unknown = codec.decode(text.slice(codedMark.length));
      if (typeof plain === 'string' && isJson(plain)) return plain;
      return lostText('the codec decoded it to something else than what was stored; is it the same codec and key?');
    } catch (error) {
      return lostText(`the codec could not decode it: ${describeThrown(error).message}`);
    }
  }

  function trySeal(text: string, what: string): string | null {
    try {
      return seal(text, what);
    } catch (error) {
      // The codec's own words may repeat what it was given: they go to the log of this process, never into the store.
      logger.error('The codec failed', { what, error: describeThrown(error).message });
      return null;
    }
  }

  /** `message` holds the JSON of the whole error, or of as much of it as there was. */
  function openError<E extends { readonly message: string }>(error: E): E {
    if (!isCoded(error.message)) return error;
    const plain = open(error.message);
    return whyUnreadable(plain) === null ? { ...error, ...(JSON.parse(plain) as E) } : { ...error, message: plain };
  }

  return {
    seal,
    open,
    trySeal,
    sealReason: (message) => seal(JSON.stringify({ message }), 'the reason'),
    openReason: (message) => openError({ message }).message,
    sealError(error) {
      const { message, code } = JSON.parse(error) as JobError;
      const short = message.length > briefMax ? `${message.slice(0, briefMax).toWellFormed()}…` : message;
      const whole = trySeal(error, 'an error');
      const brief =
        whole && trySeal(JSON.stringify({ message: short, ...(code !== undefined && { code }) }), 'an error');
      return brief === null ? { error: unencodable } : { error: JSON.stringify({ message: whole }), brief };
    },
    openError,
  };
}

const unencodable = JSON.stringify({
  code: 'UNSERIALIZABLE',
  message: 'The attempt failed, and the codec could not encode its error',
} satisfies JobError);

/** Without a check of its own, a codec with the wrong key decodes to noise. */
function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function refused(what: string, why: string, cause?: unknown): LastoutError {
  return new LastoutError('UNSERIALIZABLE', `The codec could not encode ${what}: ${why}`, undefined, cause);
}
