// `npm run mutants`.
import { spawn } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { mutants } from '../test/mutants/mutants.mjs';
import { startServices, variables } from './services/index.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const copied = [
  'src',
  'spec',
  'scripts',
  'test',
  'docs',
  'examples',
  'package.json',
  'tsconfig.json',
  'vitest.config.ts',
];
const patienceMs = 120_000;
const patienceForAllMs = 900_000;

const help = `Plants one bug after another into a copy of the project and shows which test notices it.

  npm run mutants              all of them
  npm run mutants -- fence     those whose name contains "fence"

A mutant is caught when an assertion of a test fails. A file that does not load, a test that only times out, or a suite
that passes does not count, and makes the run fail.`;

const wanted = process.argv.slice(2);
if (wanted.includes('--help')) {
  console.log(help);
  process.exit(0);
}
const chosen = mutants.filter(({ name }) => wanted.length === 0 || wanted.some((part) => name.includes(part)));
if (chosen.length === 0) {
  console.error(`No mutant has ${wanted.join(' or ')} in its name.`);
  process.exit(1);
}
const folder = mkdtempSync(join(tmpdir(), 'lastout-mutants-'));
// Once for all: each mutant's tests find them by their URLs.
const services = await startServices();
const urls = Object.fromEntries(
  Object.entries(variables).flatMap(([key, variable]) => (services[key].url ? [[variable, services[key].url]] : [])),
);
try {
  process.exitCode = await main();
} finally {
  await services.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function main() {
  for (const part of copied) cpSync(join(root, part), join(folder, part), { recursive: true });
  // The programs of the servers are in the cache.
  for (const part of ['node_modules', '.cache']) symlinkSync(join(root, part), join(folder, part));
  if (!(await isGreenUnchanged())) return 1;
  let caught = 0;
  for (const mutant of chosen) {
    const { test, why } = await plant(mutant);
    if (test) caught += 1;
    console.log(`${test ? 'caught ' : 'MISSED '} ${mutant.name} → ${test ?? why}`);
  }
  console.log(`${caught} of ${chosen.length} mutants caught`);
  return caught === chosen.length ? 0 : 1;
}

/** Otherwise every mutant would seem to be caught. */
async function isGreenUnchanged() {
  const report = await runTests([...new Set(chosen.flatMap(({ tests }) => tests))], patienceForAllMs);
  if (report?.success) return true;
  console.error('The tests fail without any mutant; see to that first.');
  for (const { title, message } of failures(report)) console.error(`  ${title}: ${message.split('\n')[0]}`);
  return false;
}

async function plant({ file, from, to, tests }) {
  const path = join(folder, file);
  const source = readFileSync(path, 'utf8');
  if (source.split(from).length !== 2) return { why: `its text is not found exactly once in ${file}` };
  writeFileSync(
    path,
    source.replace(from, () => to),
  );
  try {
    const report = await runTests(tests, patienceMs);
    if (!report) return { why: 'the tests did not load' };
    const failed = failures(report);
    const noticed = failed.find(({ message }) => /AssertionError/.test(message.split('\n')[0]));
    if (noticed) return { test: noticed.title };
    return {
      why: failed.length === 0 ? 'no test failed' : `no assertion failed, only: ${failed[0].message.split('\n')[0]}`,
    };
  } finally {
    writeFileSync(path, source);
  }
}

function failures(report) {
  return (report?.testResults ?? []).flatMap(({ assertionResults }) =>
    assertionResults
      .filter(({ status }) => status === 'failed')
      .map(({ fullName, failureMessages }) => ({ title: fullName, message: failureMessages[0] ?? '' })),
  );
}

/** The report of vitest, or null when there is none. */
function runTests(tests, mostMs) {
  const out = join(folder, 'report.json');
  rmSync(out, { force: true });
  // Tests of an example run on the library as it was last built: its bugs are those of the example.
  const projects = [...new Set(tests.map((file) => /^examples\/([^/]+)\//.exec(file)?.[1] ?? 'library'))];
  const args = [join(root, 'node_modules', 'vitest', 'vitest.mjs'), 'run', '--reporter=json'];
  args.push(...projects.flatMap((project) => ['--project', project]));
  const child = spawn(process.execPath, [...args, `--outputFile=${out}`, ...tests], {
    cwd: folder,
    env: { ...process.env, ...urls },
    stdio: 'ignore',
    detached: true,
  });
  // A group of its own, so that the processes which run the tests end with it.
  const tooLong = setTimeout(() => process.kill(-child.pid, 'SIGKILL'), mostMs);
  return new Promise((resolve) => {
    child.on('exit', () => {
      clearTimeout(tooLong);
      try {
        resolve(JSON.parse(readFileSync(out, 'utf8')));
      } catch {
        resolve(null);
      }
    });
  });
}
