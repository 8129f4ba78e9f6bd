/** Progress and log lines of running jobs, gathered and written a few times a second under their claims. */
import type { Progress } from '../core/job.js';
import type { Note } from '../core/store.js';
import { describeThrown } from '../core/thrown.js';
import type { Entry, Run } from './run.js';
import type { Worker } from './worker.js';

const writeEveryMs = 100;
/** More lines than a job may keep are neither made nor gathered. */
const linesMax = 1_001;

export interface Notebook {
  write(run: Run, entry: Entry): void;
  /** What was written for a job goes to the store: to be awaited before the job is settled. Null: there is nothing. */
  written(run: Run): Promise<void> | null;
  drop(run: Run): void;
  stop(): void;
}

interface Page {
  progress: Progress | null;
  readonly lines: Note['lines'][number][];
}

export function createNotebook(worker: Worker): Notebook {
  const { store, system, logger } = worker.parts;
  const pages = new Map<Run, Page>();
  /** Sent and not answered. A settlement by another connection could overtake it, and then it would be refused. */
  const onTheWay = new Map<Run, Promise<void>>();
  let callOff: (() => void) | null = null;

  function flush(): void {
    if (pages.size === 0) return;
    const written = [...pages];
    pages.clear();
    const sent = send(written);
    for (const [run] of written) {
      const all = Promise.all([onTheWay.get(run), sent]).then(() => {
        if (onTheWay.get(run) === all) onTheWay.delete(run);
      });
      onTheWay.set(run, all);
    }
  }

  async function send(written: readonly (readonly [Run, Page])[]): Promise<void> {
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
    written(run) {
      if (pages.has(run)) flush();
      return onTheWay.get(run) ?? null;
    },
    write(run, { progress, line }) {
      if (run.over || (line && run.lines >= linesMax)) return;
      const page = pages.get(run) ?? { progress: null, lines: [] };
      pages.set(run, page);
      if (progress) page.progress = progress;
      if (line) {
        run.lines += 1;
        page.lines.push(line());
      }
      callOff ??= system.timer(writeEveryMs, () => {
        callOff = null;
        flush();
      });
    },
    drop: (run) => void pages.delete(run),
    stop() {
      callOff?.();
      pages.clear();
    },
  };
}
