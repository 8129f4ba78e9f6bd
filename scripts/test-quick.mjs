// The inner loop: types, lint and the tests of memory and SQLite, side by side, in about a minute and a half and without a
// service. `npm run test:quick -- test/some.test.ts` runs only what matches. What may go in is decided by `npm run check`.
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from './run.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const reports = join(root, '.cache', 'reports');
const report = join(reports, 'quick.json');

const bin = (...path) => join(root, 'node_modules', ...path);
const node = (args, env) => run(process.execPath, args, { cwd: root, env });

mkdirSync(reports, { recursive: true });
rmSync(report, { force: true });
const startedAt = performance.now();
const codes = await Promise.all([
  node([bin('typescript', 'bin', 'tsc'), '--noEmit']),
  node([bin('eslint', 'bin', 'eslint.js'), '.', '--cache', '--cache-location', join(root, '.cache', 'eslint')]),
  node(
    [
      bin('vitest', 'vitest.mjs'),
      'run',
      ...process.argv.slice(2),
      '--project=library',
      '--maxWorkers=2',
      '--silent=passed-only',
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${report}`,
    ],
    { LASTOUT_TEST_STORES: 'memory,sqlite', LASTOUT_TEST_QUICK: '1' },
  ),
]);
const parts = ['types', 'lint', 'tests'].map((name, index) => `${name} ${codes[index] === 0 ? 'ok' : 'FAILED'}`);
const counted = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')) : null;
const { numPassedTests = 0, numFailedTests = 0, numPendingTests = 0, numTodoTests = 0 } = counted ?? {};
// A part without a failed test of its own, or a file that could not be loaded, counts as one.
const others = codes.filter((code, index) => code !== 0 && (index < 2 || numFailedTests === 0)).length;
console.log(
  `\n${parts.join(', ')}, in ${((performance.now() - startedAt) / 1000).toFixed(0)} s, on memory and SQLite alone`,
);
console.log(`${numPassedTests} passed, ${numFailedTests + others} failed, ${numPendingTests + numTodoTests} skipped`);
process.exitCode = codes.every((code) => code === 0) ? 0 : 1;
