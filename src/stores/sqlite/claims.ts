/** Claim records: one per claim call, with the numbers of its jobs as a list. */
import type { ClaimRecord, Tables } from '../local/tables.js';
import { limited, type Value, type Values } from './driver.js';
import type { Live } from './live.js';
import type { Session, StepPart } from './session.js';

type Part = Pick<
  Tables,
  | 'claim'
  | 'claimsOf'
  | 'addClaim'
  | 'names'
  | 'saveClaim'
  | 'dropClaim'
  | 'lapsedClaims'
  | 'claimOf'
  | 'stalledByQueue'
>;

export interface Claims extends Part, StepPart {
  /** Numbers of the jobs that a record names; some may have left it since. */
  heldSeqs(): Iterable<number>;
}

export function createClaims({ names, sql }: Session, live: Live): Claims {
  const table = names('claims');
  const columns = 'epoch, owner, at, max_stalls, seqs, due_at, ahead, open, queues';
  const select = sql(`select ${columns} from ${table} where epoch = ?`);
  const lapsed = sql(`select ${columns} from ${table} where due_at <= ? order by due_at, epoch ${limited}`);
  const ofOwner = sql(`select ${columns} from ${table} where owner = ? order by epoch`);
  const lists = sql(`select epoch, seqs from ${table} order by epoch`);
  const insert = sql(`insert into ${table} (${columns}) values (?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  const update = sql(`update ${table} set due_at = ?, ahead = ?, open = ? where epoch = ?`);
  const remove = sql(`delete from ${table} where epoch = ?`);

  const records = new Map<number, ClaimRecord>();
  const named = new WeakMap<ClaimRecord, ReadonlySet<number>>();
  /** By job the newest claim that names it: no older one can still hold it. */
  let holders: Map<number, number> | null = null;

  function recordIn(values: Values): ClaimRecord {
    const epoch = values[0] as number;
    const record = records.get(epoch) ?? parse(values);
    records.set(epoch, record);
    return record;
  }
  function claim(epoch: number): ClaimRecord | undefined {
    const known = records.get(epoch);
    if (known) return known;
    const values = select.get(epoch);
    return values && recordIn(values);
  }
  function holdersNow(): Map<number, number> {
    if (!holders) {
      holders = new Map();
      for (const [epoch, seqs] of lists.all()) for (const seq of listIn(seqs!)) holders.set(seq, epoch as number);
    }
    return holders;
  }

  return {
    begin() {
      records.clear();
      holders = null;
    },
    claim,
    addClaim(record) {
      const { epoch, owner, at, maxStalls, seqs, dueAt, ahead, open, queues } = record;
      const [seqList, aheadList, queueList] = [seqs, ahead, queues].map((list) => JSON.stringify(list));
      insert.run(epoch, owner, at, maxStalls, seqList!, dueAt, aheadList!, open, queueList!);
      records.set(epoch, record);
      holders = null;
    },
    names(record, row) {
      let seqs = named.get(record);
      if (!seqs) named.set(record, (seqs = new Set(record.seqs)));
      return seqs.has(row.seq);
    },
    saveClaim({ epoch, dueAt, ahead, open }) {
      update.run(dueAt, JSON.stringify(ahead), open, epoch);
    },
    dropClaim({ epoch }) {
      remove.run(epoch);
      records.delete(epoch);
      holders = null;
    },
    lapsedClaims: (now, limit) => lapsed.all(now, limit).map(recordIn),
    claimsOf: (owner) => ofOwner.all(owner).map(recordIn),
    claimOf(row) {
      const epoch = holdersNow().get(row.seq);
      return epoch === undefined || epoch <= row.epoch ? undefined : claim(epoch);
    },
    heldSeqs: () => holdersNow().keys(),
    *stalledByQueue(now) {
      for (const record of lapsed.all(now, -1).map(recordIn)) {
        for (const row of live.many(record.seqs)) if (row.epoch < record.epoch) yield { queue: row.queue, n: 1 };
      }
    },
  };
}

function parse([epoch, owner, at, maxStalls, seqs, dueAt, ahead, open, queues]: Values): ClaimRecord {
  return {
    epoch: epoch as number,
    owner: owner as string,
    at: at as number,
    maxStalls: maxStalls as number,
    seqs: listIn(seqs!),
    dueAt: dueAt as number,
    ahead: listIn(ahead!),
    open: open as number,
    queues: JSON.parse(queues as string) as string[],
  };
}

function listIn(text: Value): number[] {
  return JSON.parse(text as string) as number[];
}
