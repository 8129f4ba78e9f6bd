// A long run that must stay flat: heap, rows and files. `npm run soak -- --help` says how.
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from './run.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const program = join(root, 'test', 'soak', 'main.ts');
process.exitCode = await run(process.execPath, ['--import', 'tsx', program, ...process.argv.slice(2)], { cwd: root });
