/**
 * One heartbeat for all claims of a worker: it extends them, and brings back what was lost and what is to be cancelled. It
 * also carries the worker's card, by which others know that it is there, with or without claims.
 */
import { readableMessage } from '../core/coded.js';
import type { Card } from '../core/store.js';
import { describeThrown } from '../core/thrown.js';
import type { Worker } from './worker.js';

export interface Heart {
  /** Beats from here on; calling it again does nothing. */
  start(): void;
  /** For the sake of the claims, if there are any. */
  beatNow(): void;
  stop(): void;
  /** Stops, and takes the card back; rejects where the store does not answer. */
  leave(): Promise<void>;
}

export function createHeart(worker: Worker): Heart {
  const { store, system, logger, settings, types } = worker.parts;
  const { queues, concurrency } = settings;
  const card: Card = { name: settings.name ?? worker.id, types: [...types.keys()], queues, concurrency };
  let begun = false;
  let callOff: (() => void) | null = null;
  let beating = false;
  let beatingSince = 0;
  let again = false;
  let stopped = false;
  let failing = false;

  function arm(): void {
    if (callOff || stopped) return;
    callOff = system.timer(untilNext(), () => {
      callOff = null;
      void beat();
      arm();
    });
  }

  /** A heartbeat, or sooner where the trust in a claim ends: its handlers must learn that in time. */
  function untilNext(): number {
    const now = system.monotonic();
    let ms = settings.heartbeatMs;
    for (const { trustUntil } of worker.claims.all.values()) if (trustUntil > now) ms = Math.min(ms, trustUntil - now);
    return ms;
  }

  async function beat(): Promise<void> {
    if (stopped) return;
    loseUntrusted();
    if (beating) {
      again = true;
      return;
    }
    beating = true;
    beatingSince = system.monotonic();
    try {
      await extend();
      if (failing) logger.info('Claims are extended again');
      failing = false;
    } catch (error) {
      if (!failing && worker.claims.all.size > 0)
        logger.warn('Extending claims failed; trying again', { error: describeThrown(error).message });
      failing = true;
    }
    beating = false;
    if (!again) return;
    again = false;
    void beat();
  }

  async function extend(): Promise<void> {
    const requestedAt = system.monotonic();
    const all = [...worker.claims.all.values()];
    const startedNow = worker.claims.takeBegun();
    const claims = all.map((claim) => ({
      epoch: claim.epoch,
      ids: claim.ids,
      started: startedNow.filter((run) => run.claim === claim).map(({ id }) => id),
    }));
    try {
      const { lost, cancelled } = await store.extend({ owner: worker.id, leaseMs: settings.leaseMs, claims, card });
      for (const claim of all) claim.trustUntil = requestedAt + settings.leaseMs;
      const gone = new Set(lost);
      for (const claim of all)
        for (const run of claim.runs) {
          if (!run.held) continue;
          if (gone.has(run.id)) worker.slots.loseHeld(run);
          else run.beat();
        }
      for (const { id, reason } of cancelled) worker.slots.requestCancel(id, readableMessage(reason));
    } catch (error) {
      for (const run of startedNow) worker.claims.begun(run);
      throw error;
    }
  }

  /** The lease ran out by our own clock: another worker may have the job by now, so its handler must stop. */
  function loseUntrusted(): void {
    const now = system.monotonic();
    for (const claim of worker.claims.all.values()) {
      // After a standstill of this process the store is asked first: it may still count the claim as ours.
      const unheard = failing || (beating && beatingSince < claim.trustUntil);
      if (now < claim.trustUntil || !unheard) continue;
      for (const run of claim.runs) if (run.held) worker.slots.loseHeld(run);
    }
  }

  function stop(): void {
    stopped = true;
    callOff?.();
  }

  return {
    start() {
      if (begun) return;
      begun = true;
      void beat();
      arm();
    },
    beatNow() {
      if (worker.claims.all.size > 0) void beat();
    },
    stop,
    async leave() {
      stop();
      await store.extend({ owner: worker.id, leaseMs: settings.leaseMs, claims: [], card: null });
    },
  };
}
