/** What drivers and the system say may quote an address: the password in it is not passed on. */

const mask = '…';

/** `scheme://user:password@`, `user:password@` and `password=…`, wherever they stand in the text. */
export function masked(text: string): string {
  return text
    .replace(/\/\/[^\s'"]*@/g, `//${mask}@`)
    .replace(/[^\s'"(=/@:]+:[^\s'"@]*@/g, `${mask}@`)
    .replace(/\b(pass(?:word|wd)?|pwd)=('[^']*'|"[^"]*"|[^\s&;'"]*)/gi, `$1=${mask}`);
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
