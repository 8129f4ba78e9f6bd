/** Limits of queues, and what started in them lately. */
import type { QueueLimits } from '../../core/limits.js';
import { isUnlimited } from '../local/limits.js';
import { Place, type Starts, type Tables } from '../local/tables.js';
import { hasEnded, standsAt } from './live.js';
import type { Session } from './session.js';

type Part = Pick<Tables, 'limits' | 'setLimits' | 'running' | 'starts' | 'setStarts' | 'pendingIn'>;

export function createLimits(session: Session): Part {
  const { names, sql, counts } = session;
  const table = names('limits');
  const select = sql(`select queue, max_pending, concurrency, rate_max, rate_per_ms from ${table}`);
  const upsert = sql(
    `insert into ${table} (queue, max_pending, concurrency, rate_max, rate_per_ms) values (?, ?, ?, ?, ?) ` +
      'on conflict do update set max_pending = excluded.max_pending, concurrency = excluded.concurrency, ' +
      'rate_max = excluded.rate_max, rate_per_ms = excluded.rate_per_ms, ' +
      'starts = iif(excluded.rate_max is null, null, starts)',
  );
  const remove = sql(`delete from ${table} where queue = ?`);
  const startsOf = sql(`select starts from ${table} where queue = ?`);
  const setStarts = sql(`update ${table} set starts = ? where queue = ?`);
  const stands = [Place.ready, Place.later, Place.behind].map((place) => `exists (${standsAt(session, place)})`);
  // A job may be named by a record that it has left since; held is what lives and stands nowhere. No row is built, so
  // that it may also be asked outside of a step.
  const running = sql(
    'select j.queue, count(*) from (select distinct s.value as seq ' +
      `from ${names('claims')} c cross join json_each(c.seqs) s where exists (` +
      'select 1 from json_each(c.queues) q cross join json_each(?) w where w.value = q.value)) h ' +
      `cross join ${names('jobs')} j on j.seq = h.seq where not (${stands.join(' or ')}) and not ${hasEnded(session)} group by j.queue`,
  );

  return {
    limits: () =>
      new Map(
        select.all().map(([queue, maxPending, concurrency, max, perMs]) => [
          queue as string,
          {
            maxPending: maxPending as number | null,
            concurrency: concurrency as number | null,
            rate: max === null ? null : { max: max as number, perMs: perMs as number },
          } satisfies QueueLimits,
        ]),
      ),
    setLimits(queue, { maxPending, concurrency, rate }) {
      if (isUnlimited({ maxPending, concurrency, rate })) remove.run(queue);
      else upsert.run(queue, maxPending, concurrency, rate?.max ?? null, rate?.perMs ?? null);
    },
    running: (queues) =>
      new Map(running.all(JSON.stringify(queues)).map(([queue, n]) => [queue as string, n as number])),
    starts(queue) {
      const text = startsOf.get(queue)?.[0] as string | null | undefined;
      const list = text ? (JSON.parse(text) as [number, number, number, number?][]) : [];
      return list.map(([from, at, n, aheadAt = null]): Starts => ({ from, at, n, aheadAt }));
    },
    setStarts: (queue, starts) => void setStarts.run(JSON.stringify(starts.map(textOf)), queue),
    pendingIn: (queue) => counts.read('pending', queue),
  };
}

/** Hardly any was ever ahead. */
function textOf({ from, at, n, aheadAt }: Starts): readonly number[] {
  return aheadAt === null ? [from, at, n] : [from, at, n, aheadAt];
}
