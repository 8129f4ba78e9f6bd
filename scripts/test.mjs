// The one test command. `npm test` runs everything; `npm test -- some.test.ts` runs only what matches.
//
//   tests      the library, the packed package and the examples, on this Node
//   SQLite     the rules of the SQLite store again, on the other Nodes whose built-in SQLite it must work with
//   servers    the rules of the PostgreSQL and the Redis store again, on other servers than the first part had
//   deadlocks  none on PostgreSQL, except in databases of tests that provoke them (provokedPostgres of test/services.ts)
//   systems    docs/systems.md, written from the report of the first part
//
// Nothing here needs a terminal, a running service or a particular user: PostgreSQL, Redis and a Docker Engine are
// started and taken down again (scripts/services). What cannot be had is skipped and named at the end, except where it must
// be there: in CI, and as root on Debian or Ubuntu (scripts/outcome.mjs). The last line is always `N passed, N failed, N skipped`.
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installNode, otherNodes } from './nodes.mjs';
import { exitCodeOf, outcomeWithout } from './outcome.mjs';
import { run } from './run.mjs';
import { cache, programVariables, startServices, variables } from './services/index.mjs';
import { distribution } from './services/packages.mjs';
import { deadlocksOn, newestPostgres, startPostgres } from './services/postgres.mjs';
import { anotherRedis, startRedis } from './services/redis.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const reports = join(cache, 'reports');
const inCi = !['', '0', 'false', undefined].includes(process.env.CI);
const mustServe = inCi || (process.getuid?.() === 0 && distribution() !== null);
const parts = [];
const served = [];
const failures = [];

/** Runs one part, and notes how it went whatever happens inside. */
async function part(name, work) {
  const startedAt = performance.now();
  // Its place in the summary is that of its start.
  const noted = { name, passed: 0, failed: 0, skipped: 0, why: '' };
  parts.push(noted);
  let result;
  try {
    result = await work();
  } catch (error) {
    result = { result: 'failed', why: error.message, failed: 1 };
  }
  Object.assign(noted, result, { seconds: (performance.now() - startedAt) / 1000 });
}

async function vitest(name, { node = process.execPath, args = [], env = {} } = {}) {
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
    { cwd: root, env: { ...serviceUrls, ...env, PATH: `${dirname(node)}:${process.env.PATH}` } },
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
  for (const { name: file, message } of unloaded) failures.push({ file, test: '(the file itself)', message });
  for (const { name: file, assertionResults } of testResults)
    for (const { status, fullName, failureMessages } of assertionResults)
      if (status === 'failed') failures.push({ file, test: fullName, message: failureMessages.join('\n') });
  return { passed: numPassedTests, failed: numFailedTests + unloaded.length, skipped: numPendingTests + numTodoTests };
}

/** What failed, once more at the very end: above it may be ten thousand lines, of which a log keeps the last ones. */
function nameFailures() {
  for (const { file, test, message } of failures.slice(0, 20))
    console.log(`\nFAILED ${relative(root, file)} > ${test}\n${message.slice(0, 1_500)}`);
  if (failures.length > 20) console.log(`\nand ${failures.length - 20} more`);
}

/** What may depend on the version of an engine: the rules of the contract, its plans, its errors, its connections. */
const dependent = {
  sqlite: ['sqlite', 'sqlite-faults', 'sqlite-file', 'sqlite-lock', 'sqlite-plan', 'sqlite-transactions'],
  postgres: [
    'postgres',
    'postgres-connection',
    'postgres-errors',
    'postgres-migrate',
    'postgres-plan',
    'postgres-races',
  ],
  redis: [
    'redis',
    'redis-connection',
    'redis-durability',
    'redis-flush',
    'redis-hints',
    'redis-layout',
    'redis-memory',
    'redis-races',
  ],
};

function testsOf(store) {
  return dependent[store].map((name) => `test/stores/${name}.test.ts`);
}

async function sqliteOn(version) {
  const tests = testsOf('sqlite');
  const { node, ...missing } = await installNode(version, join(cache, 'nodes'));
  if (node) return vitest(`sqlite-${version}`, { node, args: ['--project=library', '--maxWorkers=1', ...tests] });
  // A machine that only lacks the network may go on, except where nobody reads the notes.
  return outcomeWithout(missing, inCi);
}

/** A store's tests on one more server, shared and private ones alike. */
async function onAnother({ name, store, find, start }) {
  const { programs, ...missing } = await find(cache);
  if (!programs) {
    const outcome = outcomeWithout(missing, mustServe);
    served.push({ name, result: outcome.result, version: '', how: outcome.why });
    return outcome;
  }
  const server = await start(programs);
  served.push({ name, result: 'ran', version: programs.version, how: programs.how });
  try {
    const args = ['--project=library', '--maxWorkers=2', ...testsOf(store)];
    const env = { [variables[store]]: server.url, [programVariables[store]]: JSON.stringify(programs) };
    const outcome = await vitest(`${store}-another`, { args, env });
    return store === 'postgres' && outcome.result === 'ran'
      ? { ...outcome, ...(await withoutDeadlocks(server.url)) }
      : outcome;
  } finally {
    await server.dispose();
  }
}

async function onOtherNodes() {
  for (const version of otherNodes) await part(`SQLite on Node ${version}`, () => sqliteOn(version));
}

async function onOtherServers() {
  for (const other of others) await part(other.name, () => onAnother(other));
}

/** Starts them, and notes how they were got. Answers their URLs as the tests want them. */
async function serve() {
  services = await startServices();
  for (const [key, name] of Object.entries({ postgres: 'PostgreSQL', redis: 'Redis', docker: 'Docker Engine' })) {
    const { url, version = '', how, why } = services[key];
    if (url) serviceUrls[variables[key]] = url;
    served.push({ name, result: url ? 'ran' : mustServe ? 'failed' : 'skipped', version, how: how ?? why });
  }
  const missing = served.filter(({ result }) => result === 'failed').length;
  return { result: missing > 0 ? 'failed' : 'ran', failed: missing, why: missing > 0 ? 'see the services below' : '' };
}

/** Locks are taken in one order (docs/decisions/019). A server that was given may have had some before. */
async function withoutDeadlocks(url, before = {}) {
  const found = Object.entries(await deadlocksOn(url)).filter(([database, n]) => n > (before[database] ?? 0));
  if (found.length === 0) return { result: 'ran', why: 'no deadlock' };
  const why = `deadlocks, which the log of the server shows, in ${found.map(([database]) => database).join(', ')}`;
  return { result: 'failed', why, failed: 1 };
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
  const width = Math.max(...[...parts, ...served].map(({ name }) => name.length));
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
  nameFailures();
  console.log('\nservices');
  for (const { name, result, version, how } of served)
    console.log([name.padEnd(width), result.padEnd(7), version.padStart(8), how].join('  ').trimEnd());
  console.log();
  process.exitCode = exitCodeOf([...parts, ...served]);
  console.log(`${sum('passed')} passed, ${sum('failed')} failed, ${sum('skipped')} skipped`);
}

const others = [
  { name: 'PostgreSQL, newest', store: 'postgres', find: newestPostgres, start: startPostgres },
  {
    name: 'Valkey',
    store: 'redis',
    find: anotherRedis,
    start: (programs) => startRedis(programs, { appendfsync: 'no' }),
  },
];

const filters = process.argv.slice(2);
const serviceUrls = {};
let services = null;
mkdirSync(reports, { recursive: true });
await part('services', serve);
const hadDeadlocks = services?.postgres.url ? await deadlocksOn(services.postgres.url) : {};
if (filters.length > 0) {
  await part('tests', () => vitest('some', { args: filters }));
} else {
  await part(`tests on Node ${process.versions.node}`, () => vitest('tests'));
  // Side by side, together with as many processes as the first part: each of them ends with one long file.
  await Promise.all([onOtherNodes(), onOtherServers()]);
  await part('docs/systems.md', systems);
}
if (services?.postgres.url) await part('deadlocks', () => withoutDeadlocks(services.postgres.url, hadDeadlocks));
await services?.stop();
summarize();
