/** One heartbeat for all claims of a worker: it extends them, and brings back what was lost and what is to be cancelled. */
import { readableMessage } from '../core/coded.js';
import { describeThrown } from '../core/thrown.js';
import type { Worker } from './worker.js';

export interface Heart {
  /** Beats as long as there are claims; calling it again does nothing. */
  start(): void;
  beatNow(): void;
  stop(): void;
}

export function createHeart(worker: Worker): Heart {
  const { store, system, logger, settings } = worker.parts;
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
      if (worker.claims.size > 0) arm();
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
    loseUntrusted();
    if (worker.claims.size === 0) return;
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
      if (!failing) logger.warn('Extending claims failed; trying again', { error: describeThrown(error).message });
      failing = true;
    }
    beating = false;
    if (!again) return;
    again = false;
    void beat();
  }

  async function extend(): Promise<void> {
    const requestedAt = system.monotonic();
    const claims = [...worker.claims.all].map(([epoch, claim]) => ({
      epoch,
      ids: [...claim.ids],
      started: [...claim.begun],
    }));
    const { lost, cancelled } = await store.extend({ owner: worker.id, leaseMs: settings.leaseMs, claims });
    for (const { epoch, started } of claims) {
      const claim = worker.claims.all.get(epoch);
      if (!claim) continue;
      claim.trustUntil = requestedAt + settings.leaseMs;
      claim.begun = claim.begun.filter((id) => !started.includes(id));
    }
    for (const id of lost) {
      for (const { epoch, ids } of claims) if (ids.includes(id)) loseUnder(epoch, id);
    }
    for (const { id, reason } of cancelled) worker.requestCancel(id, readableMessage(reason));
  }

  function loseUnder(epoch: number, id: string): void {
    worker.lose(id, epoch);
    worker.claims.forget(epoch, id);
  }

  /** The lease ran out by our own clock: another worker may have the job by now, so its handler must stop. */
  function loseUntrusted(): void {
    const now = system.monotonic();
    for (const [epoch, claim] of worker.claims.all) {
      // After a standstill of this process the store is asked first: it may still count the claim as ours.
      const unheard = failing || (beating && beatingSince < claim.trustUntil);
      if (now < claim.trustUntil || !unheard) continue;
      for (const id of claim.ids) {
        loseUnder(epoch, id);
      }
    }
  }

  return {
    start: arm,
    beatNow: () => void beat(),
    stop() {
      stopped = true;
      callOff?.();
    },
  };
}
