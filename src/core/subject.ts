/**
 * Subjects: what jobs are about. Whether one still exists is asked of the caller's own data; that one has ended is kept in
 * the store, as a fence. These are the words in which the parts that ask, end and run meet.
 */
import type { Duration } from './duration.js';

/** `over`: it exists, and its work is over. Only what was confirmed to be absent is: whoever does not know keeps. */
export type Presence = 'present' | 'over' | 'absent' | 'unknown';

export interface SubjectRule {
  /**
   * Whether these subjects exist, by their ids (without the kind), one answer each, in the same order. At most 100 a call. An
   * error, an answer that is late, short or none of the four is `unknown`.
   */
  check(ids: readonly string[], signal: AbortSignal): Promise<readonly Presence[]>;
  /** How often the pending jobs of this kind are looked through. */
  every: Duration;
  /** How many sweeps in a row have to find a subject absent. 2. One that is over is confirmed at once. */
  confirm?: number;
  /**
   * A sweep that would condemn more than this share of at least so many subjects for being absent condemns none of these.
   * 0.3 of at least 20.
   */
  brake?: { share: number; atLeast: number };
}

/** What one sweep for orphans of a kind found and did. */
export interface SubjectSweep {
  /** Subjects that were asked for, and those of them that are confirmed to be absent, or over. */
  readonly checked: number;
  readonly confirmed: number;
  /** Jobs. */
  readonly cancelled: number;
  /** These jobs and their subjects; at most 1,000. */
  readonly orphans: readonly { readonly id: string; readonly subject: string }[];
  /** Checks that told nothing. */
  readonly failures: number;
  /** It would have condemned too many for being absent, and condemned none of these. */
  readonly braked: boolean;
}

/** Why the jobs of a subject end that is not `present`, and not unknown. */
export function orphanReason(subject: string, presence: 'over' | 'absent'): string {
  return `The subject ${subject} is ${presence === 'over' ? 'over' : 'gone'}`;
}

/** Asks whether the subject of a job is there, before its handler starts. Never rejects. */
export type AskSubject = (subject: string, signal: AbortSignal) => Promise<Presence>;

/** A fence to be set on a subject. */
export interface SubjectFence {
  readonly reason: string;
  /** From now; null: until it is lifted. */
  readonly forMs: number | null;
}

/** A fence that stands. */
export interface StandingFence {
  /** The store's instant of the call. */
  readonly at: number;
  /** `farAway` is for ever. */
  readonly until: number;
}

/** What has become of a subject, by one call of `endSubject`. It stays true: what is not over is listed. */
export interface Certificate {
  readonly subject: string;
  readonly reason: string;
  /** From this instant on nothing of it starts, by the clock of the store. */
  readonly at: Date;
  /** Jobs that this call cancelled, that it asked to stop, leases that it released, artifacts that it deleted. */
  readonly cancelled: number;
  readonly requested: number;
  readonly leases: number;
  readonly artifacts: number;
  /** Ids of jobs and leases that are not over yet; at most 1,000. Ask again to see what became of them. */
  readonly underWay: readonly string[];
  /** Null: until it is lifted. */
  readonly fencedUntil: Date | null;
}

/** What was on its way in when a fence was set has mostly arrived by then; after that a sweep looks at growing intervals. */
export const firstLookMs = 60_000;

export function kindOf(subject: string): string {
  return subject.slice(0, subject.indexOf(':'));
}

export function idIn(subject: string): string {
  return subject.slice(subject.indexOf(':') + 1);
}
