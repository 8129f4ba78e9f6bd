import type { CleanupConfig } from './in-memory-job-queue.js';

/** What the operator wants to know: which rules are in force, and what for. */
export function policyTable(config: CleanupConfig): readonly (readonly [policy: string, value: string, why: string])[] {
  return [
    ['Retention Period', inWords(config.jobRetentionMs), 'Keep jobs for debugging/history'],
    ['Max Stored Jobs', `${config.maxStoredJobs} jobs`, 'Prevent memory bloat'],
    ['Cleanup Frequency', inWords(config.cleanupIntervalMs), 'Balance efficiency vs. memory'],
    ['Reference Time', config.useCompletedTime ? 'completedAt' : 'createdAt', 'Accurate retention calculation'],
  ];
}

export function formatTable(rows: readonly (readonly string[])[]): string {
  const widths = rows.reduce<number[]>((most, row) => row.map((cell, i) => Math.max(most[i] ?? 0, cell.length)), []);
  return rows
    .map((row) =>
      row
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Hours from two of them on, as the table of the plan has it; else minutes, seconds, milliseconds. */
function inWords(ms: number): string {
  const units = [
    ['hours', 3_600_000, 2],
    ['minutes', 60_000, 1],
    ['seconds', 1_000, 1],
  ] as const;
  const [name, size] = units.find(([, size, least]) => ms >= size * least && ms % size === 0) ?? ['ms', 1];
  return `${ms / size} ${name}`;
}
