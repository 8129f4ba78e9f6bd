/** When something is due, by the store's clock. */
import type { When } from '../../core/store.js';
import type { Step } from './step.js';

/** An instant in the past is due now. */
export function instantOf(step: Step, when: When): number {
  return 'inMs' in when ? step.now + when.inMs : Math.max(when.at, step.now);
}
