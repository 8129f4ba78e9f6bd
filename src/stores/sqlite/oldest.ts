/** How long the oldest due job of each queue has waited: read from the heads of the groups, never from all of them. */
import { Place, type Tables } from '../local/tables.js';
import type { Session } from './session.js';

export function createOldestDue({ names, sql }: Session): Pick<Tables, 'oldestDue' | 'dueLanes'> {
  const table = names('pending');
  // One seek per type, queue and priority: within a group the table is in the order of due_at. Not `> (?, ?, ?)`: SQLite
  // would seek to the first equal row and pass over all of them.
  const nextHead = [Place.ready, Place.behind].map((place) =>
    sql(
      `select type, queue, priority, due_at from ${table} where place = ${place} and (type, queue, priority) >= (?, ?, ? + 1) ` +
        'and (expires_at is null or expires_at > ?) order by type, queue, priority, due_at limit 1',
    ),
  );
  const dueLater = sql(
    `select type, queue, min(due_at) from ${table} indexed by ${names('pending_later')} where place = 1 and due_at <= ? ` +
      'and (expires_at is null or expires_at > ?) group by type, queue',
  );

  function* dueLanes(now: number): Generator<{ type: string; queue: string; dueAt: number }> {
    for (const next of nextHead) {
      let head = next.get('', '', Number.MIN_SAFE_INTEGER, now);
      while (head) {
        const [type, queue, priority, dueAt] = head as [string, string, number, number];
        yield { type, queue, dueAt };
        head = next.get(type, queue, priority, now);
      }
    }
    for (const [type, queue, dueAt] of dueLater.all(now, now) as unknown as [string, string, number][])
      yield { type, queue, dueAt };
  }

  return {
    *oldestDue(now) {
      const oldest = new Map<string, number>();
      for (const { queue, dueAt } of dueLanes(now)) oldest.set(queue, Math.min(dueAt, oldest.get(queue) ?? dueAt));
      for (const [queue, dueAt] of oldest) yield { queue, dueAt };
    },
    dueLanes,
  };
}
