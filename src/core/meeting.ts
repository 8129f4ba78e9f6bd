/** Who listens to a namespace in this process: each hears at once what the others do, and what other processes tell. */
import { hintsIn } from './hints.js';
import type { Hint } from './store.js';

type Listener = (hint: Hint) => void;

/** What a networked store hears other processes by. */
export interface Ear {
  /** Calls back with what was sent to the channel; null: something may have been missed. */
  listen(channel: string, hear: (payload: string | null) => void): () => void;
}

export interface Meeting {
  /** Marks what is sent from here. */
  readonly sender: string;
  give(hints: readonly Hint[]): void;
  /** See `subscribe` of a store. */
  join(listener: Listener, from?: 'here'): () => void;
}

/** What may have happened while nobody listened. */
const anything: readonly Hint[] = [{ kind: 'ready', types: new Set(['*']) }, { kind: 'cancel' }, { kind: 'events' }];

export function createMeeting(ear: Ear, channel: string, sender: string): Meeting {
  const listeners = new Set<Listener>();
  /** For whom the ear is open. */
  const far = new Set<Listener>();
  let deafen: (() => void) | null = null;

  function give(hints: readonly Hint[]): void {
    for (const hint of hints) for (const listener of listeners) listener(hint);
  }
  return {
    sender,
    give,
    join(listener, from) {
      listeners.add(listener);
      if (from !== 'here') {
        far.add(listener);
        deafen ??= ear.listen(channel, (payload) => give(heard(payload, sender)));
      }
      return () => {
        listeners.delete(listener);
        if (!far.delete(listener) || far.size > 0) return;
        deafen?.();
        deafen = null;
      };
    },
  };
}

/** Own echoes were told when the answer came. */
function heard(payload: string | null, sender: string): readonly Hint[] {
  if (payload === null) return anything;
  const space = payload.indexOf(' ');
  return space < 0 || payload.slice(0, space) === sender ? [] : hintsIn(payload.slice(space + 1));
}
