/** What an event tells of an error. */
import { clip } from './coded.js';
import type { Ending } from './ending.js';
import type { JobError } from './job.js';

export function toldOf(ending: Extract<Ending, { readonly error: string }>): string {
  if (ending.brief !== undefined) return JSON.stringify({ message: clip(ending.brief) });
  const { message, code } = JSON.parse(ending.error) as JobError;
  return JSON.stringify({ message: clip(message), ...(code !== undefined && { code }) });
}

export function errorIn(told: string): Omit<JobError, 'stack'> {
  const { message, code } = JSON.parse(told) as JobError;
  return { message: clip(message), ...(code !== undefined && { code }) };
}
