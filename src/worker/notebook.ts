/** Progress and log lines of running jobs, gathered and written a few times a second under their claims. */
import type { Progress } from '../core/job.js';
import type { Note } from '../core/store.js';
import { describeThrown } from '../core/thrown.js';
import type { Entry, Run } from './run.js';
import type { Worker } from './worker.js';

const writeEveryMs = 100;
/** More lines than a job may keep are not gathered either. */
const linesMax = 1_001;

export interface Notebook {
  write(run: Run, entry: Entry): void;
  /** Everything written so far goes to the store; to be awaited before a job is settled. */
  flush(): Promise<void>;
  has(run: Run): boolean;
  drop(run: Run): void;
  stop(): void;
}

export function createNotebook(worker: Worker): Notebook {
  const { store, system, logger } = worker.parts;
  const pages = new Map<Run, { progress: Progress | null; lines: Note['lines'][number][] }>();
  let callOff: (() => void) | null = null;

  async function flush(): Promise<void> {
    if (pages.size === 0) return;
    const written = [...pages];
    pages.clear();
    const notes = written.map(
      ([run, { progress, lines }]): Note => ({
        id: run.id,
        epoch: run.epoch,
        progress: progress && JSON.stringify(progress),
        lines,
      }),
    );
    try {
      const answers = await store.note(worker.id, notes);
      answers.forEach((answer, index) => {
        if (answer !== 'ok') worker.slots.lose(written[index]![0]);
      });
    } catch (error) {
      logger.warn('Progress or log lines could not be written', { error: describeThrown(error).message });
    }
  }

  return {
    flush,
    write(run, { progress, line }) {
      if (run.over) return;
      const page = pages.get(run) ?? { progress: null, lines: [] };
      pages.set(run, page);
      if (progress) page.progress = progress;
      if (line && page.lines.length < linesMax) page.lines.push(line);
      callOff ??= system.timer(writeEveryMs, () => {
        callOff = null;
        void flush();
      });
    },
    has: (run) => pages.has(run),
    drop: (run) => void pages.delete(run),
    stop() {
      callOff?.();
      pages.clear();
    },
  };
}
