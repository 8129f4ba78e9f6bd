/** Measures in a new process: no heap, no compiled code and no connection is shared between two of them. */
import { fork } from 'node:child_process';
import type { Order, Result } from './cell.js';

export const measureApart = (order: Order, limitMs: number): Promise<Result> => apart('./cell.js', order, limitMs);

/** The program sends either its result or why there is none. */
export function apart<R>(program: string, order: unknown, limitMs: number): Promise<R> {
  return new Promise((resolve, reject) => {
    const child = fork(new URL(program, import.meta.url), [JSON.stringify(order)], {
      execArgv: ['--max-old-space-size=6000'],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    let complaint = '';
    child.stderr!.on('data', (text) => (complaint = `${complaint}${text}`.slice(-2_000)));
    const timer = setTimeout(() => {
      complaint = `It took longer than ${Math.round(limitMs / 1_000)} s. ${complaint}`;
      child.kill('SIGKILL');
    }, limitMs);
    let answer: { result?: R; error?: string } | null = null;
    child.once('message', (message) => (answer = message as typeof answer));
    child.once('error', reject);
    child.once('close', (code) => {
      clearTimeout(timer);
      if (answer?.result) resolve(answer.result);
      else reject(new Error(answer?.error ?? `The process ended with ${code}. ${complaint}`));
    });
  });
}
