import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSlots, type Logger, open, type OpenOptions, type Queue, type Slots } from 'lastout';
import { onTestFinished } from 'vitest';
import type { Cache } from '../src/cache.js';
import { type Config, readConfig } from '../src/config.js';
import type { Diagram, Format, OutputType } from '../src/diagram.js';
import { JobProcessor, type Parts } from '../src/job-processor.js';
import { createJobStore, type RenderJob } from '../src/job-store.js';
import { createLogger, type LogLine } from '../src/logger.js';
import type { Renderer } from '../src/renderer.js';

/** A folder that is gone when the test ends. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'lastout-diagrams-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export async function openStore(url?: string, options?: OpenOptions): Promise<Queue> {
  const store = await open(url ?? `sqlite:${join(await temporaryFolder(), 'jobs.db')}`, options);
  onTestFinished(async () => void (await store.close({ grace: 0 })));
  return store;
}

export function recordingLogger(): { logger: Logger; lines: LogLine[]; said(message: string): LogLine[] } {
  const lines: LogLine[] = [];
  return {
    logger: createLogger('debug', (line) => lines.push(line)),
    lines,
    said: (message) => lines.filter((line) => line.message === message),
  };
}

/** Renders by a function, and remembers what it was asked. */
export class StubRenderer implements Renderer {
  readonly calls: [source: string, format: Format, outputType: OutputType][] = [];

  constructor(private readonly how: (source: string, signal: AbortSignal) => Promise<string> = async (s) => s) {}

  async render(source: string, format: Format, outputType: OutputType, signal: AbortSignal): Promise<Uint8Array> {
    this.calls.push([source, format, outputType]);
    return Buffer.from(await this.how(source, signal));
  }
}

/** Keeps outputs for ever, and the base64 as it came. */
export class StubCache implements Cache {
  readonly stored: { data: string; contentType: string; jobId: string }[] = [];
  private readonly links = new Map<string, string>();

  async store(data: string, contentType: string, job: { id: string; inputHash: string }): Promise<string> {
    this.stored.push({ data, contentType, jobId: job.id });
    const link = createHash('sha256').update(job.inputHash).digest('hex').slice(0, 8);
    this.links.set(job.inputHash, link);
    return link;
  }
  async find(inputHash: string): Promise<string | null> {
    return this.links.get(inputHash) ?? null;
  }
  async get(): Promise<null> {
    return null;
  }
}

/** Slots that count what is taken and given back. */
export class CountingSlots implements Slots {
  acquired = 0;
  released = 0;
  releasedTwice = 0;
  private readonly slots: Slots;

  constructor(
    options: Parameters<typeof createSlots>[0],
    private readonly onAcquire: (who: 'job' | 'caller') => Promise<void> = async () => {},
  ) {
    this.slots = createSlots(options);
  }
  get running(): number {
    return this.slots.running;
  }
  get waiting(): number {
    return this.slots.waiting;
  }
  async acquire(signal?: AbortSignal): Promise<() => void> {
    // Jobs ask with the signal of their claim.
    await this.onAcquire(signal ? 'job' : 'caller');
    const release = await this.slots.acquire(signal);
    this.acquired += 1;
    let held = true;
    return () => {
      if (!held) this.releasedTwice += 1;
      held = false;
      this.released += 1;
      release();
    };
  }
  [Symbol.dispose](): void {
    this.slots[Symbol.dispose]();
  }
}

export interface Stage extends Parts {
  readonly store: Queue;
  readonly processor: JobProcessor;
  readonly lines: LogLine[];
  said(message: string): LogLine[];
  submit(source: string, rest?: Partial<Diagram>): Promise<string>;
  /** When the job is completed or failed. */
  finished(id: string): Promise<RenderJob>;
}

/** A processor on a real store, with stubs for what the test does not name. It is stopped when the test ends. */
export async function stage(
  replace: Partial<Parts> & { readonly env?: { [name: string]: string }; readonly store?: Queue } = {},
): Promise<Stage> {
  const { env = {}, store = await openStore(), ...given } = replace;
  const config: Config = given.config ?? readConfig(env);
  const { logger, lines, said } = recordingLogger();
  const parts: Parts = {
    jobStore: createJobStore(store, config),
    queue: createSlots({ maxConcurrent: config.queueMaxConcurrent, maxWaiting: config.queueMaxWaiting }),
    renderer: new StubRenderer(),
    cache: new StubCache(),
    config,
    logger,
    ...given,
  };
  const processor = new JobProcessor(parts);
  onTestFinished(async () => void (await processor.stop()));
  return {
    ...parts,
    store,
    processor,
    lines,
    said,
    submit: async (source, rest) =>
      (await parts.jobStore.create({ source, format: 'graphviz', outputType: 'svg', ...rest })).id,
    finished: (id) => parts.jobStore.wait(id, AbortSignal.timeout(60_000)),
  };
}

/** Renders when the door is open, and gives up when the job is taken away, as the real one does. */
export function rendererBehind(door: Door): StubRenderer {
  return new StubRenderer(async (source, signal) => {
    const taken = new Promise<never>((_, reject) =>
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true }),
    );
    await Promise.race([door.pass(), taken]);
    return source;
  });
}

/** A door that a rendering waits at. Better than any sleep. */
export class Door {
  readonly arrived: Promise<void>;
  open!: () => void;
  private arrive!: () => void;
  private readonly opened: Promise<void>;

  constructor() {
    this.arrived = new Promise((resolve) => {
      this.arrive = resolve;
    });
    this.opened = new Promise((resolve) => {
      this.open = resolve;
    });
  }
  async pass(): Promise<void> {
    this.arrive();
    await this.opened;
  }
}

/** Looks until it is so, or for half a minute. */
export async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 30_000;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`Waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Graphviz takes hours for this, and more than 512 MB. */
export function endless(): string {
  const row = (letter: string): string => Array.from({ length: 60 }, (_, n) => `${letter}${n}`).join(';');
  return `digraph { {${row('a')}} -> {${row('b')}} -> {${row('c')}} -> {${row('a')}} }`;
}
