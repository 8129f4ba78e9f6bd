// Writes docs/systems.md: for each system that lastout must carry, which of its items a test has shown in this run.
// The proof is the test report and nothing else: a title that starts with item numbers (`001-05 001-06 skip returns …`)
// shows these items if the test passed. At most three numbers to a title, so that no test claims a whole system.
//
//   node scripts/systems.mjs report.json [--strict]      --strict: items that are not shown are an error
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../docs/systems', import.meta.url));
const page = fileURLToPath(new URL('../docs/systems.md', import.meta.url));
const numbersAllowed = 3;

/** The item numbers that a title begins with, and the rest of it. */
export function readTitle(title) {
  const numbers = title.match(/^(?:\d{3}-\d{2}\s+)*/)[0];
  return { items: numbers.split(/\s+/).filter(Boolean), text: title.slice(numbers.length) };
}

/** Which tests name which item: `Map<item, { title, passed }[]>`, and what is wrong with the titles themselves. */
export function collect(report, known) {
  const shown = new Map();
  const errors = [];
  for (const { title, status } of report.testResults.flatMap((file) => file.assertionResults)) {
    const { items, text } = readTitle(title);
    if (items.length > numbersAllowed) errors.push(`"${title}" names ${items.length} items, at most ${numbersAllowed}`);
    for (const item of items) {
      if (!known.has(item)) errors.push(`"${title}" names ${item}, which no system has`);
      if (!shown.has(item)) shown.set(item, []);
      shown.get(item).push({ title: text, status });
    }
  }
  return { shown, errors };
}

/** `shown`, `failing` or `missing`: one failing test outweighs all that passed; a skipped one shows nothing. */
export function judge(tests = []) {
  if (tests.some(({ status }) => status === 'failed')) return 'failing';
  return tests.some(({ status }) => status === 'passed') ? 'shown' : 'missing';
}

const parts = ['point', 'instead', 'why'];

/**
 * What is wrong with the list of the points in which a system differs from its document on purpose.
 * @param {{ id: string, departures?: any }} system
 */
export function faultsOf({ id, departures }) {
  if (!Array.isArray(departures)) return [`${id} has no list of departures`];
  const isText = (value) => typeof value === 'string' && value.trim() !== '';
  return departures.flatMap((departure, n) =>
    parts.filter((part) => !isText(departure[part])).map((part) => `departure ${n + 1} of ${id} has no ${part}`),
  );
}

export function render(systems, shown) {
  const all = systems.flatMap(({ items }) => items);
  const done = all.filter(({ id }) => judge(shown.get(id)) === 'shown').length;
  return [
    '# The systems lastout carries',
    '',
    'Five systems, each with its own checklist, must all work on lastout. This page is written by `npm test` from its own report:',
    'an item counts only if a test that names it passed in that run. Below the items of a system stands what differs from its document on purpose.',
    '',
    '| system | | items shown |',
    '|---|---|---|',
    ...systems.map(
      (system) => `| ${system.id} | ${cell(system.name)} | ${count(system, shown)} of ${system.items.length} |`,
    ),
    `| all | | ${done} of ${all.length} |`,
    ...systems.flatMap((system) => section(system, shown)),
    '',
  ].join('\n');
}

function section(system, shown) {
  return [
    '',
    `## ${system.id} ${system.name}: ${count(system, shown)} of ${system.items.length}`,
    '',
    '| item | text | shown by |',
    '|---|---|---|',
    ...system.items.map(({ id, text }) => `| ${id} | ${cell(text)} | ${proof(shown.get(id))} |`),
    '',
    ...differences(system.departures),
  ];
}

function differences(departures) {
  if (!departures) return ['**What differs on purpose is not written down.**'];
  if (departures.length === 0) return ['Nothing differs on purpose.'];
  return [
    'What differs on purpose:',
    '',
    '| the document | instead | why |',
    '|---|---|---|',
    ...departures.map((departure) => `| ${parts.map((part) => cell(departure[part])).join(' | ')} |`),
  ];
}

function proof(tests = []) {
  const verdict = judge(tests);
  if (verdict === 'missing') return '**not shown**';
  const named = tests.filter(({ status }) => status === (verdict === 'failing' ? 'failed' : 'passed'));
  const titles = [...new Set(named.map(({ title }) => cell(title)))].sort().join('<br>');
  return verdict === 'failing' ? `**failing:** ${titles}` : titles;
}

function count(system, shown) {
  return system.items.filter(({ id }) => judge(shown.get(id)) === 'shown').length;
}

function cell(text) {
  return text.replaceAll('|', '\\|');
}

function main([reportPath, mode]) {
  const report = JSON.parse(readFileSync(reportPath, 'utf8'));
  const read = (name) => JSON.parse(readFileSync(join(folder, name), 'utf8'));
  const systems = readdirSync(folder)
    .filter((name) => /^\d{3}\.json$/.test(name))
    .sort()
    .map(read);
  const known = new Set(systems.flatMap(({ items }) => items.map(({ id }) => id)));
  const { shown, errors } = collect(report, known);
  errors.push(...systems.flatMap(faultsOf));
  const by = (verdict) => [...known].filter((id) => judge(shown.get(id)) === verdict);
  const [failing, missing] = [by('failing'), by('missing')];
  writeFileSync(page, render(systems, shown));
  for (const line of errors) console.log(`systems: ${line}`);
  if (failing.length > 0) console.log(`systems: a test fails for ${failing.join(', ')}`);
  if (missing.length > 0) console.log(`systems: no test shows ${missing.join(', ')}`);
  console.log(`systems: ${by('shown').length} of ${known.size} items shown, written to docs/systems.md`);
  if (mode === '--strict' && errors.length + failing.length + missing.length > 0) process.exitCode = 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv.slice(2));
