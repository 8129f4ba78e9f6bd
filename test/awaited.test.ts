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
      // Of a call that is not waited for, the program would end in its midst with code 13: then this says after which one.
      const ended = await promisify(execFile)(process.execPath, [program, await on.url()]).catch(
        ({ code, stdout }: { code: number; stdout: string }) => ({ code, stdout }),
      );
      expect(ended).toMatchObject({ stdout: expect.stringMatching(/ close not asked: $/) });
      expect(ended).not.toHaveProperty('code');
    });
  });
});
