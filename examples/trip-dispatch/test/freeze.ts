// Loaded before a program: it stands still right after it has said FREEZE_AT, until the file FREEZE_UNTIL is there.
import { existsSync } from 'node:fs';

const { FREEZE_AT: text, FREEZE_UNTIL: file } = process.env;
if (text === undefined || file === undefined) throw new Error('FREEZE_AT and FREEZE_UNTIL are to be given');

const cell = new Int32Array(new SharedArrayBuffer(4));
const { write } = process.stdout;
process.stdout.write = function (this: typeof process.stdout, chunk: string) {
  const isTaken = write.call(this, chunk);
  if (chunk.includes(text)) while (!existsSync(file)) Atomics.wait(cell, 0, 0, 10);
  return isTaken;
};
