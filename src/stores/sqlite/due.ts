/** How many jobs are due: ready, behind a key, or not yet promoted. Counted along the indices, up to a limit. */
import { Place, type Tables } from '../local/tables.js';
import { limited, type Values } from './driver.js';
import type { Session } from './session.js';

export function createDueCount({ names, sql }: Session): Pick<Tables, 'countDue'> {
  const table = names('pending');
  const alive = '(expires_at is null or expires_at > ?)';
  // The run that is open has numbers of jobs still to come.
  const size = `min(last, (select max(seq) from ${names('jobs')})) - seq + 1`;
  const upTo = (rows: string): string => `select sum(n) from (select ${size} as n from ${rows} ${limited})`;
  const lanes = [Place.ready, Place.behind].map((place) => ({
    ofType: sql(upTo(`${table} where place = ${place} and type = ? and ${alive}`)),
    ofQueue: sql(upTo(`${table} where place = ${place} and type = ? and queue = ? and ${alive}`)),
  }));
  const later = `${table} indexed by ${names('pending_later')} where place = 1 and due_at <= ? and type = ?`;
  const laterOfType = sql(upTo(`${later} and ${alive}`));
  const laterOfQueue = sql(upTo(`${later} and queue = ? and ${alive}`));
  const numberIn = (values: Values | undefined): number => Number(values?.[0] ?? 0);

  return {
    countDue(types, queues, now, limit) {
      let n = 0;
      for (const type of new Set(types)) {
        for (const queue of queues === null ? [null] : new Set(queues)) {
          for (const { ofType, ofQueue } of lanes)
            n += numberIn(queue === null ? ofType.get(type, now, limit) : ofQueue.get(type, queue, now, limit));
          n += numberIn(
            queue === null ? laterOfType.get(now, type, now, limit) : laterOfQueue.get(now, type, queue, now, limit),
          );
          if (n >= limit) return limit;
        }
      }
      return n;
    },
  };
}
