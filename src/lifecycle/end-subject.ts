/**
 * Ends a subject: first the fence, then everything behind it. A call that breaks off anywhere is finished by the next one,
 * because each looks at what is there and not at what the last one did.
 */
import { isUnknown } from '../core/deadlines.js';
import { type Duration, show, toMs } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { isLease, leaseStateOf } from '../core/lease-record.js';
import { checkSubject, systemQueue } from '../core/names.js';
import type { Freeing } from '../core/owned.js';
import { everyPage } from '../core/pages.js';
import { farAway, type JobFilter, type Move, type Moved, noFilter, type Store } from '../core/store.js';
import type { Certificate, StandingFence, SubjectFence } from '../core/subject.js';
import { storable } from '../core/thrown.js';
import { ownOptions, readFlag } from '../core/own-options.js';

export interface EndSubjectOptions {
  /** Delete the artifacts of its jobs, too. */
  artifacts?: boolean;
  /** How long nothing of it is taken in. 24 h. */
  fence?: Duration | 'forever';
}

/** As long as finished jobs are kept unless it is said otherwise. */
const fenceMs = 86_400_000;
const pageLimit = 500;
const underWayMax = 1_000;
const reasonBytesMax = 1_024;

export function endSubjectOn(store: Store, freeing: Freeing) {
  /** Page by page; the ids that had each outcome are handed over, so that nothing grows with their number. */
  async function moveAll(filter: JobFilter, move: Move, see: (item: Moved['items'][number]) => void): Promise<void> {
    for (let cursor: string | null = null; ; ) {
      const page: Moved = await store.move({ filter, move, dryRun: false, cursor, limit: pageLimit });
      page.items.forEach(see);
      if (page.next === null) return;
      cursor = page.next;
    }
  }

  /** A second fence never ends before the first, so one whose answer was lost is simply set again. */
  async function fenceOff(subject: string, fence: SubjectFence): Promise<StandingFence> {
    const send = (): Promise<StandingFence> => store.fence(subject, fence);
    return send().catch((error: unknown) => (isUnknown(error) ? send() : Promise.reject(error as Error)));
  }

  /** Whoever holds such a lease cannot renew it any more: it is due now. One that is on its way out is left to it. */
  async function releaseLeases(subject: string, now: number, add: (id: string) => void): Promise<number> {
    const filter: JobFilter = { ...noFilter, subject, queues: [systemQueue], states: ['pending', 'processing'] };
    const ids: string[] = [];
    for await (const record of everyPage(store, filter, pageLimit)) {
      if (!isLease(record)) continue;
      add(record.id);
      const state = leaseStateOf(record, now);
      if (state === 'creating' || state === 'held') ids.push(record.id);
    }
    let released = 0;
    const move = { kind: 'reschedule', when: { inMs: 0 }, priority: null } as const;
    for (let at = 0; at < ids.length; at += pageLimit)
      await moveAll({ ...noFilter, ids: ids.slice(at, at + pageLimit) }, move, ({ outcome }) => {
        if (outcome === 'moved') released += 1;
      });
    return released;
  }

  /** Of all jobs but those that still run: they may leave more. Those whose things are held, or would not go, are told. */
  async function deleteArtifacts(subject: string, add: (id: string) => void): Promise<number> {
    let things = 0;
    let ids: string[] = [];
    async function free(): Promise<void> {
      const freed = await freeing.free(ids);
      things += freed.things;
      for (const id of [...freed.held, ...freed.failed.keys()]) add(id);
      ids = [];
    }
    for await (const { id, state } of everyPage(store, { ...noFilter, subject, system: false }, pageLimit)) {
      if (state !== 'processing') ids.push(id);
      if (ids.length === pageLimit) await free();
    }
    await free();
    return things;
  }

  return {
    async endSubject(subject: string, reason: string, options: EndSubjectOptions = {}): Promise<Certificate> {
      checkSubject(subject, 'The subject of endSubject');
      const why = checkReason(reason);
      const { artifacts, forMs } = readOptions(options);
      const underWay = new Set<string>();
      const add = (id: string): void => void (underWay.size < underWayMax && underWay.add(id));
      const { at, until } = await fenceOff(subject, { reason: why, forMs });
      let cancelled = 0;
      let requested = 0;
      const living: JobFilter = { ...noFilter, subject, states: ['pending', 'processing'], system: false };
      await moveAll(living, { kind: 'cancel', reason: why, force: false }, ({ id, outcome }) => {
        if (outcome === 'cancelled') cancelled += 1;
        if (outcome !== 'requested') return;
        requested += 1;
        add(id);
      });
      const leases = await releaseLeases(subject, at, add);
      return {
        ...{ subject, reason: why, at: new Date(at), cancelled, requested, leases },
        artifacts: artifacts ? await deleteArtifacts(subject, add) : 0,
        underWay: [...underWay],
        fencedUntil: until >= farAway ? null : new Date(until),
      };
    },

    /** False: there was no fence. */
    async liftSubject(subject: string): Promise<boolean> {
      checkSubject(subject, 'The subject of liftSubject');
      return (await store.unfence(subject)) !== null;
    },
  };
}

function readOptions(options: EndSubjectOptions): { readonly artifacts: boolean; readonly forMs: number | null } {
  const own = ownOptions(options, ['artifacts', 'fence'], 'The options of endSubject');
  const { fence = fenceMs } = own;
  const artifacts = readFlag(own.artifacts, 'artifacts of endSubject');
  return { artifacts, forMs: fence === 'forever' ? null : toMs(fence, 'fence of endSubject') };
}

function checkReason(reason: unknown): string {
  if (typeof reason === 'string' && reason.trim() !== '') return storable(reason, reasonBytesMax);
  throw new LastoutError(
    'INVALID_INPUT',
    `The reason of endSubject is ${show(reason)}; say why, for who finds the cancelled jobs.`,
  );
}
