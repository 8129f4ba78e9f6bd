/** `npm run bench`. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { compareAgainst } from './against.js';
import { compareCleaning } from './clean.js';
import { compare } from './compare.js';
import { cells, type Cell, type Store, stores } from './contender.js';
import { compareCosts } from './costs.js';
import { cache, moduleOf } from './places.js';
import { planned } from './plan.js';
import { profile } from './profile.js';
import type { ServerOptions } from './servers.js';
import { compareSnapshot } from './snapshot.js';
import { judged, machine, render } from './tables.js';

const help = `npm run bench                              lastout beside its peers and the bare engines, on every store
npm run bench -- redis                     one store
npm run bench -- postgres drain            some cells: enqueue100 enqueue1 bulk drain1 drain10 drain100 latency
npm run bench -- --only lastout            some systems, by a part of their names
npm run bench -- profile sqlite drain100   where the time of one cell goes, for lastout alone
npm run bench -- claim sqlite postgres     what a claim costs with 1 k, 100 k and 1 M stored jobs; also read; no store: all of them
npm run bench -- snapshot                  what PostgreSQL loses under a snapshot that somebody holds open
npm run bench -- clean sqlite redis        what the removal of 1 M finished jobs does to callers; no store: all of them
npm run bench -- --against FOLDER          CPU per job beside an earlier build of lastout, in turns, 10 rounds

--rounds 1 --seconds 2     shorter; the numbers mean less
--sizes 20000             clean, claim, read, snapshot: other numbers of jobs
--json FILE                every number of every round
--markdown FILE            replaces the text between the marks in FILE
--gate                     ends with 1 where a gate is not met`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    sizes: { type: 'string' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    only: { type: 'string', multiple: true, default: [] },
    synchronous: { type: 'string', default: 'normal' },
    appendfsync: { type: 'string', default: 'everysec' },
    json: { type: 'string' },
    markdown: { type: 'string' },
    against: { type: 'string' },
    gate: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
const only = values.only.flatMap((names) => names.toLowerCase().split(','));
const sizesOr = (otherwise: readonly number[]): readonly number[] => values.sizes?.split(',').map(Number) ?? otherwise;
const serverOptions = (profiling: boolean): ServerOptions => {
  const appendfsync = values.appendfsync;
  if (appendfsync !== 'always' && appendfsync !== 'everysec' && appendfsync !== 'off')
    throw new Error(`--appendfsync is ${appendfsync}; give always, everysec or off.`);
  return { appendfsync, profile: profiling };
};

if (values.help) {
  console.log(help);
  process.exit(0);
}
console.log(machine());
const [first = '', ...rest] = positionals;
if (first === 'claim' || first === 'read') {
  const sizes = sizesOr([1_000, 100_000, 1_000_000]);
  const rounds = Number(values.rounds ?? 30);
  process.exitCode = (await compareCosts(first, { words: rest, sizes, rounds }, serverOptions(false))) ? 0 : 1;
} else if (first === 'snapshot') {
  const [jobs = 150_000] = sizesOr([]);
  const within = await compareSnapshot({ jobs, rounds: Number(values.rounds ?? 3) }, serverOptions(false));
  process.exitCode = within ? 0 : 1;
} else if (first === 'clean') await cleanAll(rest);
else if (first === 'profile') await profileCell(rest[0], rest[1] ?? 'drain100');
else if (values.against !== undefined) await compareWithEarlier(values.against);
else await compareAll();

async function compareWithEarlier(folder: string): Promise<void> {
  const seconds = values.seconds === undefined ? null : Number(values.seconds);
  const wish = { folder, words: positionals, rounds: Number(values.rounds ?? 10), seconds };
  if (!(await compareAgainst(wish, serverOptions(false)))) process.exitCode = 1;
}

async function compareAll(): Promise<void> {
  const steps = planned({
    words: positionals,
    only,
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
  if (values.markdown !== undefined) insert(values.markdown, 'bench', text);
  const failed = report.measured.some(
    ({ kind, rounds }) => kind === 'lastout' && rounds.some(({ error }) => error !== null),
  );
  if (values.gate && (failed || verdicts.some(({ met }) => met === 'no'))) process.exitCode = 1;
}

async function cleanAll(words: readonly string[]): Promise<void> {
  const rounds = Number(values.rounds ?? 1);
  const wish = { words, only, sizes: sizesOr([1_000_000]), rounds, seconds: Number(values.seconds ?? 10) };
  const { results, text, misses } = await compareCleaning(wish, serverOptions(false));
  console.log(`\n${text}\n`);
  if (values.json !== undefined)
    writeFileSync(values.json, `${JSON.stringify({ machine: machine(), results, misses }, null, 2)}\n`);
  if (values.markdown !== undefined) insert(values.markdown, 'bench clean', text);
  if (values.gate && misses.length > 0) process.exitCode = 1;
}

/** Between the two marks of this name. */
function insert(file: string, name: string, text: string): void {
  const marks = [`<!-- ${name}: begin -->`, `<!-- ${name}: end -->`] as const;
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
