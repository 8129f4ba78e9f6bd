/** What drivers and the system say may quote an address: the password in it is not passed on. */

const mask = '…';

/** More of a text is not passed on. */
const textMax = 4_000;
const quoted = String.raw`E?'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*"`;
const rules: readonly (readonly [RegExp, string])[] = [
  // scheme://user:password@, whatever the password has in it
  [/\/\/[^\n]*@/g, `//${mask}@`],
  // user:password@ and :password@
  [/[^\s'"(=/@:]*:[^\s'"@]+@/g, `${mask}@`],
  // the same in a query
  [/%3A[^\s'"]*%40/gi, mask],
  // password=…, PGPASSWORD = …, "password": "…"
  [new RegExp(`((?:pass(?:word|wd|phrase)?|pwd)["']?\\s*[=:]\\s*)(?:${quoted}|[^\\s&'"]+)`, 'gi'), `$1${mask}`],
  [/((?:secret|token)=)[^\s&'"]+/gi, `$1${mask}`],
  // alter role … password '…'
  [new RegExp(`(\\bpassword\\s+)(?:${quoted})`, 'gi'), `$1${mask}`],
  // Redis quotes the arguments of a command that it does not know, and AUTH may be one.
  [/(with args beginning with:).*/gs, `$1 ${mask}`],
];

/** Wherever they stand in the text. */
export function masked(text: string): string {
  return rules.reduce((left, [form, instead]) => left.replace(form, instead), text.slice(0, textMax));
}

export function hasSecret(text: string): boolean {
  return masked(text) !== text.slice(0, textMax);
}

/** An error as a cause: its name, its text, its code and where it was thrown. Other fields may hold commands, rows or addresses. */
export function bareError(error: unknown, text: string): Error {
  const { name, code, stack } = (error ?? {}) as { name?: unknown; code?: unknown; stack?: unknown };
  const plain: Error & { code?: string } = new Error(masked(text));
  if (typeof name === 'string') plain.name = name;
  if (typeof code === 'string') plain.code = code;
  const frames = typeof stack === 'string' ? stack.split('\n').filter((line) => /^\s+at /.test(line)) : [];
  plain.stack = [`${plain.name}: ${plain.message}`, ...frames].join('\n');
  return plain;
}
