import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { mainCommand } from './server-process.js';
import { temporaryFolder, until } from './support.js';

/** The processes of a group, as the system knows them. */
function groupOf(group: number): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => {
      try {
        const [, rest = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(/\) /);
        const [state, , its] = rest.split(' ');
        return Number(its) === group && state !== 'Z';
      } catch {
        return false; // it is gone, or no process at all
      }
    });
}

/** The tour, with a folder for temporary files and a process group of its own. */
async function startTour() {
  const folder = await temporaryFolder();
  const tour = spawn(process.execPath, mainCommand('--once'), {
    env: { ...process.env, TMPDIR: folder },
    stdio: ['ignore', 'pipe', 'inherit'],
    detached: true,
  });
  const group = tour.pid!;
  onTestFinished(() => {
    for (const pid of groupOf(group)) process.kill(pid, 'SIGKILL');
  });
  const said: string[] = [];
  createInterface(tour.stdout).on('line', (line) => said.push(line));
  const exit = once(tour, 'exit') as Promise<[code: number | null, signal: string | null]>;
  // What tsx keeps there is not of the tour.
  const left = (): string[] => readdirSync(folder).filter((name) => !name.startsWith('tsx-'));
  return { tour, group, said, exit, left };
}

const moments: { readonly [when: string]: (at: Awaited<ReturnType<typeof startTour>>) => boolean } = {
  'its folder is made': ({ left }) => left().length > 0,
  'its first diagram renders': ({ said }) => said.length >= 1,
  'a renderer runs': ({ said, group }) => said.length >= 1 && groupOf(group).length >= 3,
  'three diagrams are drawn': ({ said }) => said.length >= 4,
  'the crowd is there': ({ said }) => said.some((line) => line.startsWith('More than fits')),
  'the mistake is shown': ({ said }) => said.some((line) => line.startsWith('A mistake')),
};

for (const signal of ['SIGTERM', 'SIGINT'] as const)
  for (const [when, isSo] of Object.entries(moments).slice(0, signal === 'SIGINT' ? 3 : undefined))
    test(`003-31 the tour leaves nothing behind when ${signal} ends it as ${when}`, async () => {
      const at = await startTour();
      await until(when, () => isSo(at) || at.tour.exitCode !== null);
      expect(at.left()).not.toEqual([]);
      at.tour.kill(signal);
      expect(await at.exit).toEqual([128 + constants.signals[signal], null]);
      expect(at.left()).toEqual([]);
      // A child of tsx ends when it finds its pipe closed.
      await until('no process is left', () => groupOf(at.group).length === 0);
      expect(at.said).not.toContain('Good night.');
    });

test('003-31 at any moment: no folder and no process is left, whatever the time of the signal', async () => {
  for (let afterMs = 0; afterMs <= 3_000; afterMs += 500) {
    const at = await startTour();
    await setTimeout(afterMs);
    at.tour.kill('SIGTERM');
    const [code, signal] = await at.exit;
    // Before the program runs there is nothing to clean up, and nobody to do it; it may also have come to its end.
    expect([afterMs, code ?? signal]).toEqual([afterMs, expect.toBeOneOf([143, 'SIGTERM', 0])]);
    expect([afterMs, at.left()]).toEqual([afterMs, []]);
    await until('no process is left', () => groupOf(at.group).length === 0);
  }
}, 120_000);

test('003-31 npm start passes a signal on: its program is the process that npm started', () => {
  const { scripts } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
    scripts: { [name: string]: string };
  };
  for (const name of ['start', 'serve']) expect(scripts[name]).toMatch(/^exec node /);
});
