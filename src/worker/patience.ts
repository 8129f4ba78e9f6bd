/** What a worker does while the store does not answer: it tries again after longer and longer waits, and says so once. */
import type { Logger } from '../core/job.js';
import type { System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';

const waitMinMs = 50;
const waitMaxMs = 2_000;

export interface Patience {
  /** `hold`: something must still be told to the store, so the process has to live until it is. */
  failed(error: unknown, hold: boolean): void;
  recovered(): void;
  readonly isWaiting: boolean;
  readonly isFailing: boolean;
  stop(): void;
}

export function createPatience(system: System, logger: Logger, tryAgain: () => void): Patience {
  let failures = 0;
  let stopped = false;
  let callOff: (() => void) | null = null;

  return {
    failed(error, hold) {
      if (failures === 0)
        logger.warn('The store does not answer; trying again', { error: describeThrown(error).message });
      const wait = Math.min(waitMinMs * 2 ** failures, waitMaxMs) * (0.5 + system.random() / 2);
      failures += 1;
      if (stopped || callOff) return;
      callOff = system.timer(
        wait,
        () => {
          callOff = null;
          tryAgain();
        },
        hold ? 'hold' : undefined,
      );
    },
    recovered() {
      if (failures > 0) logger.info('The store answers again', { failures });
      failures = 0;
    },
    get isWaiting() {
      return callOff !== null;
    },
    get isFailing() {
      return failures > 0;
    },
    stop() {
      stopped = true;
      callOff?.();
      callOff = null;
    },
  };
}
