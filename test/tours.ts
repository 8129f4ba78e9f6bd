/** Runs a tour (`npm start` of the demo or of an example) as a process of its own, and sees from outside what it leaves. */
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished } from 'vitest';

const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** What stands in the temporary folder, which was its alone. */
  readonly files: readonly string[];
  /** The command lines of the processes that it started and that ran when it had ended. */
  readonly processes: readonly string[];
  /** Those that run now. */
  stillRunning(): readonly string[];
}

export interface TourOptions {
  readonly args?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  /** The signal, and the words on which it is sent. `group`: to all processes at once, as a terminal does. */
  readonly kill?: { readonly signal: NodeJS.Signals; readonly on: string; readonly group?: boolean };
  /** The words after which nobody reads any more. */
  readonly deaf?: string;
}

export async function runTour(main: URL, { args = [], env = {}, kill, deaf }: TourOptions = {}): Promise<Ended> {
  const folder = mkdtempSync(join(tmpdir(), 'lastout-tour-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const marker = `LASTOUT_TOUR=${randomUUID()}`;
  const [name = '', value] = marker.split('=');
  const tour = spawn(process.execPath, ['--import', tsx, main.pathname, ...args], {
    // The cache of tsx would be in the temporary folder, too.
    env: { ...process.env, NODE_OPTIONS: '', TMPDIR: folder, TSX_DISABLE_CACHE: '1', ...env, [name]: value },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  onTestFinished(() => signalGroup(tour.pid!, 'SIGKILL'));
  let [stdout, stderr] = ['', ''];
  let killed = false;
  tour.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  tour.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    if (deaf !== undefined && stdout.includes(deaf)) tour.stdout.destroy();
    if (killed || !kill || !stdout.includes(kill.on)) return;
    killed = true;
    if (kill.group) signalGroup(tour.pid!, kill.signal);
    else tour.kill(kill.signal);
  });
  const closed = once(tour, 'close');
  const [code] = (await once(tour, 'exit')) as [number | null];
  const stillRunning = (): readonly string[] => processesWith(marker);
  const processes = stillRunning();
  // Who runs still may hold the output open.
  if (processes.length === 0) await closed;
  return { code, stdout, stderr, files: readdirSync(folder), processes, stillRunning };
}

function signalGroup(leader: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-leader, signal);
  } catch {} // all of them have ended
}

/** The tour has heard the signal, cleared up, and ended as if the signal had ended it. */
export async function expectCleanEnd(
  main: URL,
  options: TourOptions & Required<Pick<TourOptions, 'kill'>>,
): Promise<void> {
  const { signal, on } = options.kill;
  let ended = await runTour(main, options);
  // A busy machine may send the signal when the tour has come to its own end, which shows nothing.
  for (let again = 0; again < 2 && ended.code === 0; again++) ended = await runTour(main, options);
  const { code, stderr, files, processes } = ended;
  const expected = { on, code: 128 + constants.signals[signal], stderr: '', files: [], processes: [] };
  expect({ on, code, stderr, files, processes }).toEqual(expected);
}

function processesWith(marker: string): string[] {
  return readdirSync('/proc').flatMap((pid) => {
    try {
      if (!/^\d+$/.test(pid) || !readFileSync(`/proc/${pid}/environ`, 'latin1').split('\0').includes(marker)) return [];
      return [readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')];
    } catch {
      return []; // ended meanwhile
    }
  });
}
