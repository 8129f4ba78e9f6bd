/** Act 2. A worker process is killed in the middle of its job; another one finishes it. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Queue } from 'lastout';
import { report } from './jobs.js';
import type { Stage } from './stage.js';
import type { Expected } from './verify.js';

/** What a worker process says: that it is there, or that it is in the middle of a job. */
export type Word = 'ready' | { readonly halfway: string; readonly stalls: number };

const names = ['A', 'B'];

export async function killedWorker(
  queue: Queue,
  stage: Stage,
  file: string,
  ending: AbortSignal,
): Promise<readonly Expected[]> {
  stage.act(2, 'kill -9: a worker dies in the middle of its job, and the job does not');
  const workers = names.map(() => startWorker(file, ending));
  try {
    await Promise.all(workers.map((worker) => hear(worker, (word) => word === 'ready')));
    names.forEach((name, index) => stage.tell('+', `worker ${name} is ready`, `process ${workers[index]!.pid}`));

    const halfway = workers.map((worker) => hear(worker, (word) => word !== 'ready').then(() => worker));
    for (const each of halfway) each.catch(() => {}); // heard by the race below, if it comes to that
    const { id } = await queue.enqueue(report, { pages: 10 });
    const victim = await Promise.race(halfway);
    const heir = workers.find((worker) => worker !== victim)!;
    const nameOf = (worker: ChildProcess): string => `worker ${names[workers.indexOf(worker)]}`;
    stage.tell('▶', `${nameOf(victim)} is half through`, `report, ${(await queue.get(id))?.state ?? 'gone'}`);

    const died = once(victim, 'exit');
    victim.kill('SIGKILL');
    await died;
    stage.tell('✗', `${nameOf(victim)} is killed`, `kill -9 ${victim.pid}; its claim lapses after a lease of 1 s`);
    await hear(heir, (word) => word !== 'ready');
    stage.tell('↻', `${nameOf(heir)} has taken over`, 'the same job, under a new claim');

    const job = await queue.wait(id);
    stage.tell('✓', `report is ${job.state}`, `by process ${(job.result as { pid: number }).pid}`);
    stage.sum(`attempts ${job.attempts}, stalls ${job.stalls}: a dead worker costs the job no attempt`);
    await leave(heir);
    return [{ id, type: 'report', state: 'completed', attempts: 1, stalls: 1, result: { pages: 10, pid: heir.pid! } }];
  } finally {
    await Promise.all(workers.map(end));
  }
}

function startWorker(file: string, ending: AbortSignal): ChildProcess {
  const worker = fork(fileURLToPath(new URL('./worker.ts', import.meta.url)), [file], {
    signal: ending,
    killSignal: 'SIGKILL',
  });
  return worker.on('error', () => {}); // its end is heard by those who wait for it
}

/** Whatever became of the act, no process of it is left. */
async function end(worker: ChildProcess): Promise<void> {
  if (worker.exitCode !== null || worker.signalCode !== null) return;
  const ended = once(worker, 'exit');
  worker.kill('SIGKILL');
  await ended;
}

async function hear(worker: ChildProcess, isIt: (word: Word) => boolean): Promise<void> {
  return new Promise((resolve, reject) => {
    const listen = (word: Word): void => {
      if (!isIt(word)) return;
      worker.off('message', listen);
      worker.off('exit', gone);
      resolve();
    };
    const gone = (code: number | null, signal: string | null): void =>
      reject(new Error(`A worker process ended with ${code ?? signal} before its time`));
    worker.on('message', listen);
    worker.on('exit', gone);
  });
}

/** Without its parent a worker closes its queue and ends. */
async function leave(worker: ChildProcess): Promise<void> {
  const left = once(worker, 'exit');
  worker.disconnect();
  const [code] = (await left) as [number | null];
  if (code !== 0) throw new Error(`A worker process ended with ${code}`);
}
