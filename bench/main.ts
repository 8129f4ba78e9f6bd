/**
 *   npm run bench                              lastout beside its peers and the bare engines, on every store
 *   npm run bench -- redis                     one store
 *   npm run bench -- postgres drain            some cells: enqueue100 enqueue1 bulk drain1 drain10 drain100 latency
 *   npm run bench -- --only lastout            some systems, by a part of their names
 *   npm run bench -- profile sqlite drain100   where the time of one cell goes, for lastout alone
 *   npm run bench -- claim | read | drain      what an act costs with 1 k, 100 k and 1 M stored jobs
 *
 * --rounds 1 --seconds 2     shorter; the numbers mean less
 * --json FILE                every number of every round
 * --markdown FILE            replaces the text between the marks in FILE
 * --gate                     ends with 1 where a gate is not met
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { compare } from './compare.js';
import { cells, type Cell, type Store, stores } from './contender.js';
import { compareCosts } from './costs.js';
import { drain } from './drain.js';
import { cache, moduleOf } from './places.js';
import { planned } from './plan.js';
import { profile } from './profile.js';
import type { ServerOptions } from './servers.js';
import { judged, machine, render } from './tables.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    engine: { type: 'string', multiple: true, default: ['memory', 'sqlite'] },
    sizes: { type: 'string', default: '1000,100000,1000000' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    only: { type: 'string', multiple: true, default: [] },
    synchronous: { type: 'string', default: 'normal' },
    appendfsync: { type: 'string', default: 'everysec' },
    json: { type: 'string' },
    markdown: { type: 'string' },
    gate: { type: 'boolean', default: false },
  },
});
const marks = ['<!-- bench: begin -->', '<!-- bench: end -->'] as const;
const serverOptions = (profiling: boolean): ServerOptions => {
  const appendfsync = values.appendfsync;
  if (appendfsync !== 'always' && appendfsync !== 'everysec' && appendfsync !== 'off')
    throw new Error(`--appendfsync is ${appendfsync}; give always, everysec or off.`);
  return { appendfsync, profile: profiling };
};

console.log(machine());
const [first = '', ...rest] = positionals;
if (first === 'claim' || first === 'read') {
  const sizes = values.sizes.split(',').map(Number);
  const rounds = Number(values.rounds ?? 30);
  process.exitCode = (await compareCosts(first, { engines: values.engine, sizes, rounds })) ? 0 : 1;
} else if (first === 'drain' && rest.length === 0) await drain(values.engine);
else if (first === 'profile') await profileCell(rest[0], rest[1] ?? 'drain100');
else await compareAll();

async function compareAll(): Promise<void> {
  const steps = planned({
    words: positionals,
    only: values.only.flatMap((names) => names.toLowerCase().split(',')),
    rounds: Number(values.rounds ?? 3),
    seconds: values.seconds === undefined ? null : Number(values.seconds),
  });
  const report = await compare(steps, serverOptions(false));
  const verdicts = judged(report);
  const text = render(report, verdicts);
  console.log(`\n${text}\n`);
  if (values.json !== undefined) {
    const judgements = verdicts.map(({ gate, ratio, met }) => ({ ...gate, ratio, met }));
    const all = { machine: machine(), ...report, gates: judgements };
    writeFileSync(values.json, `${JSON.stringify(all, null, 2)}\n`);
  }
  if (values.markdown !== undefined) insert(values.markdown, text);
  const failed = report.measured.some(
    ({ kind, rounds }) => kind === 'lastout' && rounds.some(({ error }) => error !== null),
  );
  if (values.gate && (failed || verdicts.some(({ met }) => met === 'no'))) process.exitCode = 1;
}

function insert(file: string, text: string): void {
  const before = readFileSync(file, 'utf8');
  const [begin, end] = marks.map((mark) => before.indexOf(mark)) as [number, number];
  if (begin < 0 || end < begin) throw new Error(`${file} has no ${marks[0]} followed by ${marks[1]}.`);
  writeFileSync(file, `${before.slice(0, begin)}${marks[0]}\n\n${text}\n\n${before.slice(end)}`);
}

async function profileCell(store: string | undefined, cell: string): Promise<void> {
  if (!stores.includes(store as Store) || !cells.includes(cell as Cell))
    throw new Error(`Say what to profile: a store (${stores.join(', ')}) and a cell (${cells.join(', ')}).`);
  const seconds = Number(values.seconds ?? 3);
  const setup = store === 'sqlite' ? values.synchronous : '';
  const module = moduleOf({ kind: 'lastout', module: 'lastout.js' });
  const what = { module, store: store as Store, setup, cell: cell as Cell, seconds };
  await profile(what, serverOptions(true), join(cache, 'bench-profiles'));
}
