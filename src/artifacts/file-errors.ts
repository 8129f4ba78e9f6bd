/** What the file system says, in the words of a store. */
import { type Code, LastoutError } from '../core/errors.js';

const codes: { readonly [errno: string]: Code } = {
  ENOSPC: 'STORE_FULL',
  EDQUOT: 'STORE_FULL',
  EROFS: 'STORE_READONLY',
  EACCES: 'STORE_DENIED',
  EPERM: 'STORE_DENIED',
};

/** ENOTDIR: something else stands where its folder would be. */
export function isMissing(error: unknown): boolean {
  const errno = errnoOf(error);
  return errno === 'ENOENT' || errno === 'ENOTDIR';
}

export async function told<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = codes[errnoOf(error) ?? ''];
    if (!code || error instanceof LastoutError) throw error;
    throw new LastoutError(code, `${what} could not be written: ${(error as Error).message}`, undefined, error);
  }
}

export function errnoOf(error: unknown): string | undefined {
  const code: unknown = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : undefined;
}
