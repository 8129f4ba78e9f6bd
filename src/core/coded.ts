/** Texts that went through a codec carry a mark, so that the plain ones beside them stay readable. */

/** Where a text stands: what a codec may bind it to. */
export interface TextPlace {
  /** Of its job. Empty where a text is said of many jobs at once, and in texts of 0.1.0. */
  readonly id: string;
  /** `input`, `result`, `error`, `progress`, `log`, `memo` or `reason`. Empty in texts of 0.1.0, which were bound to nothing. */
  readonly field: string;
}

/** What `open` takes as `codec`. Both are synchronous, and `decode` gives back what `encode` was given for the same place. */
export interface Codec {
  encode(text: string, of: TextPlace): string;
  decode(text: string, of: TextPlace): string;
  /** Plain texts are not read. False. */
  required?: boolean;
}

/** JSON never begins with it, and hardly any message does. */
export const codedMark = '~:';
/** Stands before the reason where a text could not be decoded; never stored. */
const lostMark = '~?';

export function isCoded(text: string): boolean {
  return text.startsWith(codedMark);
}

/** Events are many and short-lived: a long message stays with the job. A coded one could not be decoded if it were cut. */
export function clip(message: string): string {
  return message.length > 200 && !isCoded(message) ? `${message.slice(0, 200).toWellFormed()}…` : message;
}

/** What stands in the place of a text that could not be decoded. */
export function lostText(why: string): string {
  return lostMark + why;
}

/** Null: the text is plain. */
export function whyUnreadable(text: string): string | null {
  if (text.startsWith(lostMark)) return text.slice(lostMark.length);
  return isCoded(text) ? 'it went through a codec, and this queue was opened without one' : null;
}

/** A message as it may be shown, or why it cannot be. */
export function readableMessage(message: string): string {
  const why = whyUnreadable(message);
  return why === null ? message : `This text cannot be read: ${why}`;
}
