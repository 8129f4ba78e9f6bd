/** A program that opens a queue and does nothing more: it ends by itself. */
import { open } from '../src/index.js';

const queue = await open('memory:');
queue.startPeriodicCleanup();
process.stdout.write('opened\n');
