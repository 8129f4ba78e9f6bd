// The library keeps no process alive by itself, but who awaits an answer gets it, though nothing else is to be done.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { compilePrograms } from './programs.js';
import { eachStore } from './support.js';

const program = compilePrograms().awaited;

describe('a program that only awaits answers', () => {
  eachStore((on) => {
    it('gets each of them before it ends', async () => {
      const { stdout } = await promisify(execFile)(process.execPath, [program, await on.url()]);
      expect(stdout.trim()).toBe(
        'sweep plan audit explain ledger logs hold release artifacts remove schedule unschedule runUntilIdle wait events stats health close',
      );
    });
  });
});
