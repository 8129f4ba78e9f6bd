/**
 * The small tables beside the jobs, for an engine that keeps them whole: totals, counts, pauses, limits, fences, log lines, the term with its
 * ledger, and cards. All that they know is in their state.
 */
import type { QueueLimits } from '../../core/limits.js';
import type { Card, LogLine, WorkerCard } from '../../core/store.js';
import { isUnlimited } from './limits.js';
import { bounds, type Fence, type Starts, type Tables, type TallyState, type StoredTerm } from './tables.js';

export interface SideState {
  /** Queue → state → how many. */
  readonly counts: Map<string, Map<TallyState, number>>;
  readonly totals: Map<string, { kind: string; created: number; released: number }>;
  readonly paused: Set<string>;
  readonly limits: Map<string, QueueLimits>;
  readonly starts: Map<string, readonly Starts[]>;
  readonly fences: Map<string, Fence>;
  readonly lines: Map<string, LogLine[]>;
  term: StoredTerm | null;
  readonly ledger: { readonly no: number; readonly body: string }[];
  readonly cards: Map<string, { readonly card: Card; readonly dueAt: number }>;
}

export function emptySideState(): SideState {
  return {
    counts: new Map(),
    totals: new Map(),
    paused: new Set(),
    limits: new Map(),
    starts: new Map(),
    fences: new Map(),
    lines: new Map(),
    term: null,
    ledger: [],
    cards: new Map(),
  };
}

type SideTables = Pick<
  Tables,
  | ('tallies' | 'count' | 'pendingIn' | 'addTotal' | 'totals')
  | ('paused' | 'setPaused' | 'limits' | 'setLimits' | 'starts' | 'setStarts')
  | ('hasFences' | 'fence' | 'setFence' | 'dropFence' | 'dueFences' | 'addLines' | 'lines')
  | ('term' | 'setTerm' | 'addEntry' | 'entries' | 'setCard' | 'cards' | 'dropCards')
>;

export function sideTables(state: SideState): SideTables {
  return { ...numbers(state), ...rules(state), ...maintainer(state) };
}

function numbers({ counts, totals, lines }: SideState) {
  return {
    *tallies(): ReturnType<Tables['tallies']> & Generator {
      for (const [queue, states] of counts) for (const [state, n] of states) yield { queue, state, n };
    },
    count(queue: string, state: TallyState, delta: number): void {
      let states = counts.get(queue);
      if (!states) counts.set(queue, (states = new Map<TallyState, number>()));
      const n = (states.get(state) ?? 0) + delta;
      if (n !== 0) states.set(state, n);
      else if (states.delete(state) && states.size === 0) counts.delete(queue);
    },
    pendingIn: (queue: string): number => counts.get(queue)?.get('pending') ?? 0,
    addTotal(kind: string, created: number, released: number): void {
      const total = totals.get(kind) ?? { kind, created: 0, released: 0 };
      totals.set(kind, { kind, created: total.created + created, released: total.released + released });
    },
    totals: () => totals.values(),
    addLines: ({ id }: { readonly id: string }, added: readonly LogLine[]): void =>
      void lines.set(id, [...(lines.get(id) ?? []), ...added]),
    lines: (id: string): readonly LogLine[] => lines.get(id) ?? [],
  };
}

function rules({ paused, limits, starts, fences }: SideState) {
  return {
    paused: () => paused,
    setPaused: (word: string, on: boolean): void => void (on ? paused.add(word) : paused.delete(word)),
    limits: () => limits,
    setLimits(queue: string, wanted: QueueLimits): void {
      if (isUnlimited(wanted)) limits.delete(queue);
      else limits.set(queue, wanted);
      if (wanted.rate === null) starts.delete(queue);
    },
    starts: (queue: string): readonly Starts[] => starts.get(queue) ?? [],
    setStarts: (queue: string, next: readonly Starts[]): void => void starts.set(queue, next),
    hasFences: () => fences.size > 0,
    fence: (subject: string) => fences.get(subject),
    setFence: (fence: Fence): void => void fences.set(fence.subject, fence),
    dropFence: (subject: string): void => void fences.delete(subject),
    dueFences: (now: number, limit: number): readonly Fence[] =>
      [...fences.values()]
        .filter(({ dueAt }) => dueAt <= now)
        .sort((a, b) => a.dueAt - b.dueAt)
        .slice(0, limit),
  };
}

function maintainer(state: SideState) {
  const { ledger, cards } = state;
  return {
    term: () => state.term ?? undefined,
    setTerm: (next: StoredTerm): void => void (state.term = next),
    addEntry(body: string): void {
      ledger.push({ no: (ledger.at(-1)?.no ?? 0) + 1, body });
      if (ledger.length > bounds.ledgerMax) ledger.shift();
    },
    entries: (below: number, limit: number) =>
      ledger
        .filter(({ no }) => no < below)
        .reverse()
        .slice(0, limit),
    setCard(owner: string, card: Card | null, dueAt: number): void {
      if (card) cards.set(owner, { card, dueAt });
      else cards.delete(owner);
    },
    cards: (): readonly WorkerCard[] =>
      [...cards].map(([owner, kept]) => ({ owner, ...kept })).sort((a, b) => (a.owner < b.owner ? -1 : 1)),
    dropCards(now: number): void {
      for (const [owner, { dueAt }] of cards) if (dueAt <= now) cards.delete(owner);
    },
  };
}
