/**
 * One text through the codec and back, with the place that it is bound to. What went in is marked; what cannot come back says
 * why, and harms nobody else.
 */
import { type Codec, codedMark, isCoded, lostText, type TextPlace, whyUnreadable } from '../core/coded.js';
import { LastoutError } from '../core/errors.js';
import { notLate } from '../core/harmless.js';
import type { JobError, Logger } from '../core/job.js';
import { describeThrown } from '../core/thrown.js';
import { isOurs, unencodable } from './our-words.js';

/** As long as the message of an event is. */
const briefMax = 200;

/**
 * Follow the mark, and tell which place the text is bound to: that of its job, or that of reasons, of which one is said of many
 * jobs at once. Without either it is of 0.1.0. Whoever writes another one makes `decode` get another place.
 */
const bindings = { own: '~=', reason: '~*' } as const;
type Binding = keyof typeof bindings;

const reasons: TextPlace = { id: '', field: 'reason' };
/** Of texts of 0.1.0. */
const nowhere: TextPlace = { id: '', field: '' };

/** What stands at a place, as a refusal names it. */
const named = {
  input: 'the input',
  memo: 'the memo',
  reason: 'the reason',
  result: 'a result',
  error: 'an error',
  progress: 'progress',
  log: 'a log line',
} as const;
type Field = keyof typeof named;

/** The place of a text that a job has of its own. */
export interface OwnPlace extends TextPlace {
  readonly field: Exclude<Field, 'reason'>;
}

export interface Texts {
  /** Refuses with UNSERIALIZABLE what the codec refuses. */
  seal(text: string, of: OwnPlace): string;
  /** `seal` where nothing may fail: null, and a line in the log. */
  trySeal(text: string, of: OwnPlace): string | null;
  /** A JSON text. A plain one comes back as it is, unless the codec is required. */
  open(text: string, of: OwnPlace): string;
  /** A message in a place where the store itself may write one: its code beside it is then the store's. */
  sealReason(reason: string): string;
  openReason(reason: string): string;
  /** JSON of an error → JSON of `{ message: coded whole }`, and what an event shows of it. */
  sealError(error: string, id: string): { readonly error: string; readonly brief?: string };
  openError<E extends { readonly message: string; readonly code?: string }>(error: E, id: string): E;
}

export function textsOf(codec: Codec, logger: Logger): Texts {
  const required = codec.required ?? false;

  function sealAs(binding: Binding, text: string, of: TextPlace, what: string): string {
    let coded: unknown;
    try {
      coded = notLate(codec.encode(text, { ...of }));
    } catch (error) {
      throw refused(what, describeThrown(error).message, error);
    }
    if (typeof coded !== 'string') throw refused(what, `it returned ${typeof coded} instead of text`);
    if (coded.includes('\0') || !coded.isWellFormed())
      throw refused(what, 'its text has a NUL character or a lone surrogate, which not every store can keep');
    return codedMark + bindings[binding] + coded;
  }

  const seal = (text: string, of: OwnPlace): string => sealAs('own', text, of, named[of.field]);

  /** What may stand here is bound to this place. */
  function openAt(text: string, of: TextPlace, binding: Binding): string {
    if (!isCoded(text)) return required ? lostText('it did not go through the codec, which is required') : text;
    const { coded, is } = unmarked(text);
    if (is !== null && is !== binding) return lostText('it was written for another place');
    try {
      const plain: unknown = notLate(codec.decode(coded, { ...(is === null ? nowhere : of) }));
      if (typeof plain === 'string' && isJson(plain)) return plain;
      return lostText('the codec decoded it to something else than what was stored; is it the same codec and key?');
    } catch (error) {
      return lostText(`the codec could not decode it: ${describeThrown(error).message}`);
    }
  }

  function trySeal(text: string, of: OwnPlace): string | null {
    try {
      return seal(text, of);
    } catch (error) {
      // The codec's own words may repeat what it was given: they go to the log of this process, never into the store.
      logger.error('The codec failed', { what: named[of.field], error: describeThrown(error).message });
      return null;
    }
  }

  function opened<E extends { readonly message: string }>(error: E, of: TextPlace, binding: Binding): E {
    const plain = openAt(error.message, of, binding);
    if (plain === error.message) return error;
    return whyUnreadable(plain) === null ? { ...error, ...(JSON.parse(plain) as E) } : { ...error, message: plain };
  }

  return {
    seal,
    open: (text, of) => openAt(text, of, 'own'),
    trySeal,
    sealReason: (message) => sealAs('reason', JSON.stringify({ message }), reasons, named.reason),
    openReason: (message) => opened({ message }, reasons, 'reason').message,
    sealError(error, id) {
      const of = { id, field: 'error' } as const;
      const { message, code } = JSON.parse(error) as JobError;
      const short = message.length > briefMax ? `${message.slice(0, briefMax).toWellFormed()}…` : message;
      const whole = trySeal(error, of);
      const brief = whole && trySeal(JSON.stringify({ message: short, ...(code !== undefined && { code }) }), of);
      return brief === null ? { error: unencodable } : { error: JSON.stringify({ message: whole }), brief };
    },
    /** `message` holds the JSON of the whole error, of as much of it as there was, or of a reason. */
    openError(error, id) {
      const { message, code } = error;
      if (isOurs(code, message)) return error;
      return isCoded(message) && unmarked(message).is === 'reason'
        ? opened(error, reasons, 'reason')
        : opened(error, { id, field: 'error' }, 'own');
    },
  };
}

/** What the codec has made of a text, and what it is bound to; null: to nothing. */
function unmarked(text: string): { readonly coded: string; readonly is: Binding | null } {
  const marked = text.slice(codedMark.length);
  for (const is of ['own', 'reason'] as const)
    if (marked.startsWith(bindings[is])) return { coded: marked.slice(bindings[is].length), is };
  return { coded: marked, is: null };
}

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
