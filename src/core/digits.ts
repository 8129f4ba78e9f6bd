/** The 32 digits of ids, in the order of their character codes, so that texts sort as the numbers do. */
export const digits = '0123456789abcdefghjkmnpqrstvwxyz';

/** The last ten digits of a number: an instant, until the year 37,000. */
export function inDigits(number: number): string {
  let rest = number;
  let text = '';
  for (let i = 0; i < 10; i++) {
    text = digits[rest % 32]! + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}
