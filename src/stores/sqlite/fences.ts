/** Fences of subjects. Whether there is any is remembered from step to step: mostly there is none. */
import type { Fence, Tables } from '../local/tables.js';
import { limited, type Values } from './driver.js';
import type { Session } from './session.js';

type Part = Pick<Tables, 'hasFences' | 'fence' | 'setFence' | 'dropFence' | 'dueFences'>;

export function createFences({ names, sql, remember }: Session): Part {
  const table = names('fences');
  const columns = 'subject, at, until, reason, due_at';
  const any = sql(`select 1 from ${table} where due_at >= 0 limit 1`);
  const select = sql(`select ${columns} from ${table} where subject = ?`);
  const due = sql(`select ${columns} from ${table} where due_at <= ? order by due_at ${limited}`);
  const put = sql(`insert or replace into ${table} (${columns}) values (?, ?, ?, ?, ?)`);
  const remove = sql(`delete from ${table} where subject = ?`);
  const known = remember(() => any.get() !== undefined);

  return {
    hasFences: () => known.get(),
    fence(subject) {
      const found = select.get(subject);
      return found && fenceIn(found);
    },
    setFence({ subject, at, until, reason, dueAt }) {
      put.run(subject, at, until, reason, dueAt);
      known.forget();
    },
    dropFence(subject) {
      remove.run(subject);
      known.forget();
    },
    dueFences: (now, limit) => due.all(now, limit).map(fenceIn),
  };
}

function fenceIn(values: Values): Fence {
  const [subject, at, until, reason, dueAt] = values as [string, number, number, string, number];
  return { subject, at, until, reason, dueAt };
}
