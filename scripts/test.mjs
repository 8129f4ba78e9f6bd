// The one test command. `npm test` runs everything; `npm test -- some.test.ts` runs only what matches.
//
//   tests      the library, the packed package and the examples, on this Node
//   SQLite     the tests of the SQLite store again, on the other Nodes whose built-in SQLite it must work with
//   systems    docs/systems.md, written from the report of the first part
//
// Nothing here needs a terminal, a service or a particular user. The last line is always `N passed, N failed, N skipped`.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installNode, otherNodes } from './nodes.mjs';
import { run } from './run.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const reports = join(root, '.cache', 'reports');
const inCi = !['', '0', 'false', undefined].includes(process.env.CI);
const parts = [];

/** Runs one part, and notes how it went whatever happens inside. */
async function part(name, work) {
  const startedAt = performance.now();
  let result;
  try {
    result = await work();
  } catch (error) {
    result = { result: 'failed', why: error.message, failed: 1 };
  }
  const seconds = (performance.now() - startedAt) / 1000;
  parts.push({ name, passed: 0, failed: 0, skipped: 0, why: '', ...result, seconds });
}

async function vitest(name, { node = process.execPath, args = [] } = {}) {
  const report = join(reports, `${name}.json`);
  rmSync(report, { force: true });
  const code = await run(
    node,
    [
      join(root, 'node_modules', 'vitest', 'vitest.mjs'),
      'run',
      ...args,
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${report}`,
    ],
    // A test that starts `node` by name gets the same one.
    { cwd: root, env: { PATH: `${dirname(node)}:${process.env.PATH}` } },
  );
  return {
    ...count(report),
    ...(code === 0 ? { result: 'ran' } : { result: 'failed', why: `vitest ended with code ${code}` }),
  };
}

/** A file that could not even be loaded has no failed test in it; it counts as one. So does a run without a report. */
function count(report) {
  if (!existsSync(report)) return { passed: 0, failed: 1, skipped: 0 };
  const { testResults, numPassedTests, numFailedTests, numPendingTests, numTodoTests } = JSON.parse(
    readFileSync(report, 'utf8'),
  );
  const unloaded = testResults.filter(
    (file) => file.status === 'failed' && !file.assertionResults.some(({ status }) => status === 'failed'),
  );
  return { passed: numPassedTests, failed: numFailedTests + unloaded.length, skipped: numPendingTests + numTodoTests };
}

async function sqliteOn(version) {
  const folder = join(root, 'test', 'stores');
  const names = existsSync(folder) ? readdirSync(folder) : [];
  const tests = names.filter((name) => /^sqlite.*\.test\.ts$/.test(name)).map((name) => `test/stores/${name}`);
  if (tests.length === 0) throw new Error('there are no test/stores/sqlite*.test.ts');
  const { node, why, missing } = await installNode(version, join(root, '.cache', 'nodes'));
  if (node) return vitest(`sqlite-${version}`, { node, args: ['--project=library', ...tests] });
  // Unsuited machines are told so. A machine that only lacks the network may go on, except where nobody reads the notes.
  return missing === 'platform' || !inCi ? { result: 'skipped', why } : { result: 'failed', why, failed: 1 };
}

async function systems() {
  const report = join(reports, 'tests.json');
  if (!existsSync(report)) return { result: 'skipped', why: 'the tests left no report' };
  const code = await run(process.execPath, [join(root, 'scripts', 'systems.mjs'), report, '--strict'], { cwd: root });
  return code === 0
    ? { result: 'ran' }
    : { result: 'failed', why: 'some items are not shown by a passing test', failed: 1 };
}

function summarize() {
  const sum = (key) => parts.reduce((total, part) => total + part[key], 0);
  const width = Math.max(...parts.map(({ name }) => name.length));
  console.log();
  for (const { name, result, passed, failed, skipped, seconds, why } of parts) {
    const numbers = result === 'skipped' ? '' : `${passed} passed, ${failed} failed, ${skipped} skipped`;
    const line = [
      name.padEnd(width),
      result.padEnd(7),
      `${seconds.toFixed(1)} s`.padStart(8),
      numbers,
      why && `(${why})`,
    ];
    console.log(line.join('  ').trimEnd());
  }
  if (parts.some(({ result }) => result === 'failed')) process.exitCode = 1;
  console.log(`${sum('passed')} passed, ${sum('failed')} failed, ${sum('skipped')} skipped`);
}

const filters = process.argv.slice(2);
mkdirSync(reports, { recursive: true });
if (filters.length > 0) {
  await part('tests', () => vitest('some', { args: filters }));
} else {
  await part(`tests on Node ${process.versions.node}`, () => vitest('tests'));
  for (const version of otherNodes) await part(`SQLite on Node ${version}`, () => sqliteOn(version));
  await part('docs/systems.md', systems);
}
summarize();
