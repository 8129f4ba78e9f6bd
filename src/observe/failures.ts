/** Tells the logger of each job that fails, and of each attempt that is to be repeated. */
import { clip } from '../core/coded.js';
import { type FailedAttempt, type Failures, stalledError } from '../core/failures.js';
import type { Logger } from '../core/job.js';

/** `isCoded`: what a handler says is kept from being read, so no message is shown. */
export function failuresTo(logger: Logger, isCoded: boolean): Failures {
  const about = ({ id, type, attempt, maxAttempts, error: { code, message } }: FailedAttempt, inMs?: number) => ({
    id,
    type,
    ...(code !== undefined && { code }),
    ...(!isCoded && { attempt, maxAttempts, ...(inMs !== undefined && { inMs }), error: clip(message) }),
  });
  return {
    failed: (attempt) => logger.error('Job failed', about(attempt)),
    retried: (attempt, inMs) => logger.warn('Job is tried again', about(attempt, inMs)),
    stalled(jobs) {
      for (const { id, type, stalls } of jobs) {
        const { code, message } = stalledError(stalls);
        logger.error('Job failed', { id, type, code, ...(!isCoded && { stalls, error: message }) });
      }
    },
  };
}
