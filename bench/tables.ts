/** The report as Markdown that can also be read in a terminal. */
import { availableParallelism, cpus, totalmem } from 'node:os';
import { cells, type Cell } from './contender.js';
import type { Measured, Report, Round } from './compare.js';
import { type Board, boards, type Gate, gates } from './plan.js';

const headings: Readonly<Record<Cell, string>> = {
  enqueue100: 'enqueue ×100',
  enqueue1: 'enqueue ×1',
  bulk: 'bulk of 1,000',
  drain1: 'drain c=1',
  drain10: 'drain c=10',
  drain100: 'drain c=100',
  latency: 'idle latency',
};

export interface Verdict {
  readonly gate: Gate;
  readonly ratio: Spread;
  readonly met: 'no' | 'gate' | 'aim';
}

interface Spread {
  readonly median: number;
  readonly least: number;
  readonly most: number;
}

export function machine(): string {
  return (
    `Node ${process.version}, ${process.platform} ${process.arch}, ${availableParallelism()} cores ` +
    `(${cpus()[0]?.model.trim() ?? 'unknown'}), ${Math.round(totalmem() / 2 ** 30)} GiB`
  );
}

export function render(report: Report, verdicts: readonly Verdict[]): string {
  const seen = boards.filter(({ id }) => report.measured.some(({ board }) => board === id));
  const roundCount = Math.max(...report.measured.map(({ rounds }) => rounds.length));
  const withPeers = report.measured.some(({ kind }) => kind === 'peer');
  const versions = Object.entries(report.versions).map(([name, version]) => `${name} ${version}`);
  return [
    `${machine()}. ${roundCount === 1 ? 'One round' : `${roundCount} rounds`} in ${Math.ceil(report.seconds / 60)} minutes.`,
    ...(withPeers ? [`Peers: ${versions.join(', ')}.`] : []),
    '### Gates',
    gateTable(verdicts),
    ...seen.flatMap((board) => boardParts(board, report)),
    ...(withPeers ? ['### Where we lose', losses(report).join('\n')] : []),
    ...failures(report),
  ].join('\n\n');
}

function boardParts(board: Board, report: Report): string[] {
  const own = report.measured.filter((each) => each.board === board.id);
  const shownCells = cells.filter((cell) => own.some((each) => each.cell === cell));
  const names = board.entrants.map(({ name }) => name).filter((name) => own.some(({ entrant }) => entrant === name));
  const rows = (text: (measured: Measured) => string): string[][] =>
    names.map((name) => [
      name === 'lastout' ? '**lastout**' : name,
      ...shownCells.map((cell) => {
        const found = own.find((each) => each.entrant === name && each.cell === cell);
        return found ? text(found) : '–';
      }),
    ]);
  const rateCells = shownCells.filter((cell) => cell !== 'latency');
  const parts = [`### ${board.title}`, report.servers[board.store] ?? ''];
  parts.push('Jobs per second, median [least–most]; latency in ms, p50 / p99:');
  parts.push(table(['', ...shownCells.map((cell) => headings[cell])], rows(rateText)));
  if (rateCells.length > 0) {
    const hasServer = own.some(({ rounds }) => rounds.some(({ server }) => server !== null));
    parts.push(hasServer ? 'µs of CPU per job, of the client + of the server:' : 'µs of CPU per job:');
    const cpuRows = rows((each) => (each.cell === 'latency' ? '' : cpuText(each)));
    const width = 1 + rateCells.length;
    parts.push(
      table(
        ['', ...rateCells.map((cell) => headings[cell])],
        cpuRows.filter((row) => row.slice(1, width).some((cell) => cell !== '–')).map((row) => row.slice(0, width)),
      ),
    );
  }
  return parts.filter((part) => part !== '');
}

function rateText({ cell, rounds }: Measured): string {
  const good = rounds.filter(({ error }) => error === null);
  if (good.length === 0) return 'failed';
  if (cell === 'latency') {
    return `${spread(good.map(({ p50 }) => p50!)).median.toFixed(3)} / ${spread(good.map(({ p99 }) => p99!)).median.toFixed(2)}`;
  }
  const { median, least, most } = spread(good.map(({ rate }) => rate));
  return good.length === 1 ? number(median) : `${number(median)} [${short(least)}–${short(most)}]`;
}

function cpuText({ rounds }: Measured): string {
  const good = rounds.filter(({ error }) => error === null);
  if (good.length === 0) return 'failed';
  const client = spread(good.map((each) => each.client)).median.toFixed(1);
  if (good.some(({ server }) => server === null)) return client;
  return `${client} + ${spread(good.map(({ server }) => server!)).median.toFixed(1)}`;
}

/** Ratios are taken within a round, where the machine was in the same mood; the median of the rounds decides. */
export function judged({ measured }: Report): Verdict[] {
  const verdicts: Verdict[] = [];
  for (const gate of gates) {
    const inCell = measured.filter(({ board, cell }) => board === gate.board && cell === gate.cell);
    const ours = inCell.find(({ kind }) => kind === 'lastout');
    const others = inCell.filter(({ entrant }) => gate.against.includes(entrant));
    if (!ours || others.length === 0) continue;
    const ratios = ours.rounds.flatMap((own) => {
      const rates = others.map(({ rounds }) => roundNo(rounds, own.round)?.rate ?? 0);
      const best = Math.max(...rates);
      return best > 0 ? [own.rate / best] : [];
    });
    if (ratios.length === 0) continue;
    const ratio = spread(ratios);
    verdicts.push({
      gate,
      ratio,
      met: ratio.median < gate.atLeast ? 'no' : ratio.median < gate.atLeast * 2 ? 'gate' : 'aim',
    });
  }
  return verdicts;
}

function roundNo(rounds: readonly Round[], no: number): Round | undefined {
  return rounds.find(({ round, error }) => round === no && error === null);
}

function gateTable(verdicts: readonly Verdict[]): string {
  if (verdicts.length === 0) return 'Nothing was measured that a gate depends on.';
  const words = { no: '**not met**', gate: 'met', aim: 'met, and the aim' };
  return table(
    ['store', 'cell', 'against', 'ratio', 'gate', 'aim', ''],
    verdicts.map(({ gate, ratio, met }) => [
      boards.find(({ id }) => id === gate.board)!.title,
      headings[gate.cell],
      gate.against.length > 1 ? `best of ${gate.against.join(' / ')}` : gate.against[0]!,
      `${times(ratio.median)} [${times(ratio.least)}–${times(ratio.most)}]`,
      `${gate.atLeast}`,
      `${gate.atLeast * 2}`,
      words[met],
    ]),
  );
}

/** Every cell in which a peer is faster, or answers sooner. */
function losses({ measured }: Report): string[] {
  const lines: string[] = [];
  for (const ours of measured.filter(({ kind }) => kind === 'lastout')) {
    const title = boards.find(({ id }) => id === ours.board)!.title;
    const peers = measured.filter(
      ({ board, cell, kind }) => board === ours.board && cell === ours.cell && kind === 'peer',
    );
    for (const peer of peers) {
      for (const [what, factor] of behind(ours, peer))
        lines.push(`- ${title}, ${headings[ours.cell]}${what}: ${peer.entrant} is ${times(factor)} × as fast.`);
    }
  }
  return lines.length > 0 ? lines : ['Nowhere in what was measured.'];
}

function behind(ours: Measured, peer: Measured): [string, number][] {
  const mine = ours.rounds.filter(({ error }) => error === null);
  const theirs = peer.rounds.filter(({ error }) => error === null);
  if (mine.length === 0 || theirs.length === 0) return [];
  const median = (rounds: readonly Round[], of: (round: Round) => number): number => spread(rounds.map(of)).median;
  if (ours.cell === 'latency') {
    const p50 = median(mine, ({ p50 }) => p50!) / median(theirs, ({ p50 }) => p50!);
    const p99 = median(mine, ({ p99 }) => p99!) / median(theirs, ({ p99 }) => p99!);
    return [[' p50', p50] as [string, number], [' p99', p99] as [string, number]].filter(([, factor]) => factor > 1);
  }
  const factor = median(theirs, ({ rate }) => rate) / median(mine, ({ rate }) => rate);
  return factor > 1 ? [['', factor]] : [];
}

function failures({ measured }: Report): string[] {
  const lines = measured.flatMap(({ board, cell, entrant, rounds }) =>
    rounds.flatMap(({ round, error }) =>
      error === null ? [] : [`- ${board}, ${headings[cell]}, ${entrant}, round ${round}: ${error.split('\n')[0]!}`],
    ),
  );
  return lines.length > 0 ? ['### Failed', lines.join('\n')] : [];
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((cell, i) => Math.max(cell.length, ...rows.map((row) => row[i]!.length), 3));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join(' | ')} |`;
  const rule = `|${widths.map((width, i) => (i === 0 ? `:${'-'.repeat(width + 1)}` : `${'-'.repeat(width + 1)}:`)).join('|')}|`;
  return [line(head), rule, ...rows.map(line)].join('\n');
}

function spread(values: readonly number[]): Spread {
  const sorted = values.toSorted((a, b) => a - b);
  return { median: sorted[(sorted.length - 1) >> 1]!, least: sorted[0]!, most: sorted.at(-1)! };
}

function number(value: number): string {
  return Math.round(value).toLocaleString('en');
}

function short(value: number): string {
  if (value >= 1_000_000) return `${(value / 1_000_000).toFixed(1)}M`;
  return value >= 10_000
    ? `${Math.round(value / 1_000)}k`
    : value >= 1_000
      ? `${(value / 1_000).toFixed(1)}k`
      : number(value);
}

function times(value: number): string {
  return value >= 100 ? number(value) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
