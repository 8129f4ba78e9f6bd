/** How two jobs of one given id are compared: by a print of id, type and input, whatever the order of the input's keys. */
import { isCoded } from './coded.js';
import { canonicalText, fingerprint } from './json.js';

/** Made from the plain input, because a codec may give another text each time. */
export function printOf(id: string, type: string, input: string): string {
  return fingerprint(`${id} ${type} ${isCoded(input) ? input : canonicalText(input)}`);
}

/** A job whose id nobody chose carries no print; it is made when one is asked for. */
export function printIn({ id, type, input, print }: { id: string; type: string; input: string; print: string | null }) {
  return print ?? printOf(id, type, input);
}
