/**
 * Hints as one line of text, as the networked stores make it: words with a space between them. `r:a,b` jobs of these types
 * are ready (`r:*`: of any), `l:250` one becomes due in so many ms, `c` cancel, `p` pause, `e` events, `k` cap. A call
 * returns the line to its caller, and sends `<sender> <line>` to other processes. To its caller alone it says at the end of the
 * line which jobs it has ended as STALLED: `s:id,type,stalls` for each.
 */
import type { StalledJob } from './failures.js';
import type { Hint } from './store.js';

export function stalledIn(line: string): readonly StalledJob[] {
  const from = line.indexOf(' s:');
  if (from < 0) return [];
  return line
    .slice(from + 3)
    .split(' s:')
    .map((word) => {
      const [id, type, stalls] = word.split(',') as [string, string, string];
      return { id, type, stalls: Number(stalls) };
    });
}

export function hintsIn(line: string): readonly Hint[] {
  const hints: Hint[] = [];
  for (const word of line.split(' ')) {
    const hint = hintIn(word);
    if (hint) hints.push(hint);
  }
  return hints;
}

/** What a newer version may say besides is passed over. */
function hintIn(word: string): Hint | null {
  const rest = word.slice(2);
  switch (word[0]) {
    case 'r':
      return { kind: 'ready', types: new Set(rest.split(',')) };
    case 'l':
      return Number.isFinite(Number(rest)) ? { kind: 'later', inMs: Number(rest) } : null;
    case 'c':
      return { kind: 'cancel' };
    case 'p':
      return { kind: 'pause' };
    case 'e':
      return { kind: 'events' };
    case 'k':
      return { kind: 'cap' };
    default:
      return null;
  }
}
