/** Live jobs. A row says nothing about its place: a claim then writes one record and no row (see pending.ts). */
import { Place, type Row, type Tables } from '../local/tables.js';
import { createAdded } from './added.js';
import { limited, type Values } from './driver.js';
import { liveColumns, restOf } from './rows.js';
import { inRunBelow } from './runs.js';
import { type Known, type Session, WrongGuess } from './session.js';

export interface Live extends Pick<Tables, 'live' | 'liveAt' | 'add' | 'save'> {
  /** Writes due_at and priority where the columns lag behind: the place is found by them. */
  follow(row: Row): void;
  /** What is known of a row that is about to be written, after making sure of it. */
  sure(row: Row): Known;
  /** Live rows by number, in any order. */
  many(seqs: readonly number[]): Row[];
  /** Live rows by id, in any order: what `live` is asked next is answered from here. */
  expect(ids: readonly string[]): void;
  /** Rows that are known without having been read: `live` finds them by id. */
  meet(row: Row): void;
  /** The next rows of a type, or with a key, below a number, newest first. */
  ofKey(type: string, key: string, below: number, limit: number): Row[];
  pendingOfType(type: string, below: number, limit: number): Row[];
  /** Of these rows, those of a type that are claimed, newest first. */
  claimedOfType(type: string, seqs: readonly number[]): Row[];
  remove(row: Row): void;
}

/** Whether a job of `jobs` j stands in a place. Only ready ones stand in runs. */
export function standsAt({ names }: Session, place: Place): string {
  const among =
    `from ${names('pending')} p where p.place = ${place} and p.type = j.type ` +
    'and p.queue = j.queue and p.priority = j.priority and p.due_at = j.due_at';
  if (place !== Place.ready) return `select ${place} ${among} and p.seq = j.seq`;
  const run = `select p.last as last ${among} and p.seq <= j.seq order by p.seq desc limit 1`;
  return `select ${place} from (${run}) where last >= j.seq`;
}

/** Whether a job of `jobs` j has ended. */
export function hasEnded({ names }: Session): string {
  return `exists (select 1 from ${names('done')} d where d.seq = j.seq)`;
}

export function createLive(session: Session): Live {
  const { names, sql, rows, policies, counts } = session;
  const jobs = names('jobs');
  // A live job that is not pending is claimed. Three seeks, and no list.
  const places = [Place.ready, Place.later, Place.behind].map((place) => `(${standsAt(session, place)})`);
  const columns = `${liveColumns}, coalesce(${places.join(', ')}) as place`;
  const select = `select ${columns} from ${jobs} j`;
  const isLive = `not ${hasEnded(session)}`;
  const inList = (values: string): string => `from json_each(?) cross join ${jobs} j on ${values} = json_each.value`;
  const byId = sql(`${select} where j.id = ? and ${isLive}`);
  const bySeq = sql(`${select} where j.seq = ? and ${isLive}`);
  const bySeqs = sql(`select ${columns} ${inList('j.seq')} where ${isLive}`);
  const byIds = sql(`select ${columns} ${inList('j.id')} where ${isLive}`);
  const claimedOfType = sql(
    `select ${liveColumns}, null as place ${inList('j.seq')} where j.type = ? and ${isLive} ` +
      `and not exists ${places.join(' and not exists ')}`,
  );
  const ofKey = sql(
    `${select} where j.key = ? and j.ended = 0 and j.type = ? and j.seq < ? order by j.seq desc ${limited}`,
  );
  const pendingOfType = sql(
    `select ${liveColumns}, p.place from ${names('pending')} p indexed by ${names('pending_type')} ` +
      `cross join ${jobs} j on ${inRunBelow} where p.type = ? and p.seq < ? order by p.seq desc, j.seq desc ${limited}`,
  );
  const update = sql(`update ${jobs} set rest = ?, priority = ?, due_at = ? where seq = ?`);
  const updateDue = sql(`update ${jobs} set priority = ?, due_at = ? where seq = ?`);
  const updateExpiry = sql(
    `update ${names('pending')} set expires_at = ? ` +
      'where place = ? and type = ? and queue = ? and priority = ? and due_at = ? and seq = ?',
  );
  const isPlainStill = sql(`select 1 from ${jobs} j where j.seq = ? and j.rest is null and ${isLive}`);
  const remove = sql(`delete from ${jobs} where seq = ?`);
  const write = createAdded(session);
  const met = new Map<string, Row>();
  session.parts.push({ begin: () => met.clear() });

  const rowIn = (values: Values | undefined): Row | undefined => values && session.live(values);
  const rowsIn = (list: readonly Values[]): Row[] => list.map((values) => session.live(values));

  function saveExpiry(row: Row, known: Known): void {
    if (row.place === Place.claimed || known.expiresAt === row.expiresAt) return;
    updateExpiry.run(row.expiresAt, row.place, row.type, row.queue, known.priority, known.dueAt, row.seq);
    known.expiresAt = row.expiresAt;
  }
  function sure(row: Row): Known {
    const known = rows.get(row.seq)!;
    if (known.guessed && !isPlainStill.get(row.seq)) throw new WrongGuess();
    known.guessed = false;
    return known;
  }

  return {
    live(id) {
      const known = met.get(id);
      return known?.state === null ? known : rowIn(byId.get(id));
    },
    liveAt(seq) {
      const known = rows.get(seq);
      if (known && !known.guessed) return known.row.state === null ? known.row : undefined;
      return rowIn(bySeq.get(seq));
    },
    many: (seqs) => rowsIn(bySeqs.all(JSON.stringify(seqs))),
    expect(ids) {
      for (const row of rowsIn(byIds.all(JSON.stringify(ids)))) met.set(row.id, row);
    },
    meet: (row) => void met.set(row.id, row),
    sure,
    add(row) {
      const known = session.know(row, policies.use(row.policy));
      known.fresh = true;
      if (row.ownedBy === null) counts.add('stored', '', 1);
      write(known);
    },
    save(row) {
      const known = sure(row);
      saveExpiry(row, known);
      // A place is found by priority and dueAt, so those of a row that stands somewhere are written by `put` alone.
      if (row.place === Place.claimed) Object.assign(known, { priority: row.priority, dueAt: row.dueAt });
      update.run(restOf(row, false), known.priority, known.dueAt, row.seq);
    },
    follow(row) {
      const known = rows.get(row.seq)!;
      if (known.priority === row.priority && known.dueAt === row.dueAt) return;
      updateDue.run(row.priority, row.dueAt, row.seq);
      Object.assign(known, { priority: row.priority, dueAt: row.dueAt });
    },
    remove(row) {
      met.delete(row.id);
      remove.run(row.seq);
    },
    ofKey: (type, key, below, limit) => rowsIn(ofKey.all(key, type, below, limit)),
    pendingOfType: (type, below, limit) => rowsIn(pendingOfType.all(below, type, below, limit)),
    claimedOfType: (type, seqs) => rowsIn(claimedOfType.all(JSON.stringify(seqs), type)).sort((a, b) => b.seq - a.seq),
  };
}
