/** A program of its own for the tests of transactions: `node sqlite-transactions-child.js MODE FILE`. */
import { defineJob, open } from '../../src/index.js';
import { connect, valueOf } from './sqlite-support.js';

const [mode = '', file = ''] = process.argv.slice(2);

function say(...words: unknown[]): void {
  process.stdout.write(`${words.join(' ')}\n`);
}

const queue = await open(`sqlite:${file}?synchronous=normal`);
const db = await connect(file);
// The program waits for nothing but its end.
setInterval(() => undefined, 60_000);

const modes: Record<string, () => Promise<void>> = {
  /** Each build tells the newest change that it sees. */
  async builder() {
    const build = defineJob<any, any>('build', { run: () => Number(valueOf(db, 'select max(n) from changes')) });
    await queue.work([build], { poll: 1, concurrency: 1 });
    say('ready');
  },
  /** Stops between the enqueue and the commit. */
  async undecided() {
    db.exec('begin immediate; insert into changes values (2)');
    const { outcome } = await queue.enqueue('build', 2, { tx: db, timeout: 1_234 });
    say(outcome);
  },
  async decided() {
    db.exec('begin immediate; insert into changes values (2)');
    await queue.enqueue('build', 2, { tx: db });
    db.exec('commit');
    say('committed');
  },
};

await modes[mode]!();
