/** Finding leases again, and what is done to them by hand. Kinds that only other processes know are shown as well. */
import { openCursor, sealCursor } from '../core/cursor.js';
import { show } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import type { Page, State } from '../core/job.js';
import { isLease, isLeaseType, isLeftBehind, leaseStateOf } from '../core/lease-record.js';
import { leftAlive } from '../core/left-alive.js';
import { checkId, checkSubject, systemQueue } from '../core/names.js';
import { byIds, everyPage } from '../core/pages.js';
import { type Lease, type Leases, leaseStates } from '../core/resource.js';
import { type JobFilter, noFilter, type StoredJob, type Tally } from '../core/store.js';
import { ownOptions } from '../core/own-options.js';
import { handleOf } from './handle.js';
import { type LeaseParts, makeDue, moveOne, twice } from './parts.js';

const pageLimits = { usual: 50, most: 200 } as const;
/** More than this is not looked at for a number that should be 0. */
const countedMax = 10_000;
const sampleMax = 10;
const live: readonly State[] = ['pending', 'processing'];

export interface Attention {
  readonly count: number;
  /** The ids of the first ten. */
  readonly sample: readonly string[];
}

export interface LeaseBook extends Leases {
  /** Those that could not be ended, that a close left alive, and that nobody has come to end. Costs nothing where the tally shows that there is no lease. */
  attention(tally: Tally): Promise<Attention>;
}

export function bookOf(parts: LeaseParts): LeaseBook {
  const { store, system } = parts;

  async function find(given: Parameters<Leases['find']>[0] = {}): Promise<Page<Lease>> {
    const filter = ownOptions(given, ['state', 'subject', 'cursor', 'limit'], 'The filter of leases.find');
    const { state } = filter;
    const cursor = openCursor('leases.find', filter.cursor);
    const limit = checkLimit(filter.limit);
    if (state !== undefined && !leaseStates.includes(state))
      throw new LastoutError('INVALID_FILTER', `state is ${show(state)}; it is one of ${leaseStates.join(', ')}.`);
    const asked: Partial<JobFilter> = {
      states: state === undefined ? null : state === 'ended' ? ended : live,
      subject: filter.subject === undefined ? null : checkSubject(filter.subject),
    };
    const types = await kindsStored();
    if (types.length === 0) return { items: [], next: null };
    const found = await store.find({ filter: { ...noFilter, ...asked, types }, cursor, limit });
    const isAsked = (record: StoredJob): boolean => state === undefined || leaseStateOf(record, system.now()) === state;
    return {
      items: found.jobs.filter(isAsked).map((record) => handleOf(parts, record)),
      next: sealCursor('leases.find', found.next),
    };
  }

  /** The types of all leases that are stored: the books know them, whoever took them. */
  async function kindsStored(): Promise<string[]> {
    const { kinds } = await store.readAudit({ cursor: null, limit: 1 });
    return Object.keys(kinds).filter((kind) => isLeaseType(kind));
  }

  async function leaseOf(id: string): Promise<StoredJob> {
    const [record] = await byIds(store, [checkId(id, 'The id of the lease')]);
    if (record && isLease(record)) return record;
    throw new LastoutError('JOB_NOT_FOUND', `There is no lease ${id}; it was never here, or it ended a while ago.`, {
      id,
    });
  }

  return {
    find,
    async retry(id) {
      const record = await leaseOf(id);
      if (leaseStateOf(record, system.now()) !== 'needs_attention')
        throw new LastoutError('INVALID_FILTER', `Lease ${id} does not need attention; release it to end it.`, { id });
      await makeDue(parts, id);
    },
    async force(id, reason) {
      if (typeof reason !== 'string' || reason.trim() === '')
        throw new LastoutError('INVALID_FILTER', `reason is ${show(reason)}; say why lease ${id} is closed by hand.`);
      await leaseOf(id);
      await twice(() => moveOne(parts, id, { kind: 'cancel', reason, force: true }));
    },
    async attention({ queues }) {
      const ours = queues.find(({ queue }) => queue === systemQueue);
      if (!ours || ours.pending + ours.processing === 0) return { count: 0, sample: [] };
      const types = await kindsStored();
      if (types.length === 0) return { count: 0, sample: [] };
      const sample: string[] = [];
      let count = 0;
      let left = countedMax;
      const alive = await leftAlive(store);
      for await (const record of everyPage(store, { ...noFilter, types, states: live }, pageLimits.most)) {
        if (isLeftBehind(record, system.now(), alive)) {
          count += 1;
          if (sample.length < sampleMax) sample.push(record.id);
        }
        left -= 1;
        if (left === 0) break;
      }
      return { count, sample };
    },
  };
}

const ended: readonly State[] = ['completed', 'failed', 'cancelled', 'expired'];

function checkLimit(limit: number = pageLimits.usual): number {
  if (Number.isInteger(limit) && limit >= 1 && limit <= pageLimits.most) return limit;
  throw new LastoutError('INVALID_LIMIT', `limit is ${show(limit)}; give a whole number from 1 to ${pageLimits.most}.`);
}
