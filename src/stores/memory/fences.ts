/** Fences of subjects, and the order in which they are due. */
import type { Fence, Tables } from '../local/tables.js';

type Part = Pick<Tables, 'hasFences' | 'fence' | 'setFence' | 'dropFence' | 'dueFences'>;

export function createFences(): Part {
  const fences = new Map<string, Fence>();
  return {
    hasFences: () => fences.size > 0,
    fence: (subject) => fences.get(subject),
    setFence: (fence) => void fences.set(fence.subject, fence),
    dropFence: (subject) => void fences.delete(subject),
    dueFences: (now, limit) =>
      [...fences.values()]
        .filter(({ dueAt }) => dueAt <= now)
        .sort((a, b) => a.dueAt - b.dueAt)
        .slice(0, limit),
  };
}
