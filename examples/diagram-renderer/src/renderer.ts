import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Config } from './config.js';
import type { Format, OutputType } from './diagram.js';

export interface Renderer {
  /** Rejects with a RenderError. When it has settled, the process that rendered is gone. */
  render(source: string, format: Format, outputType: OutputType, signal: AbortSignal): Promise<Uint8Array>;
}

/** `SOURCE`, `TIMEOUT` and `MEMORY` are the diagram's doing; `RENDER`: the renderer broke. */
export type RenderErrorCode = 'SOURCE' | 'TIMEOUT' | 'MEMORY' | 'RENDER';

export class RenderError extends Error {
  constructor(
    message: string,
    readonly code: RenderErrorCode = 'RENDER',
  ) {
    super(message);
    this.name = code === 'TIMEOUT' ? 'RenderTimeoutError' : 'RenderError';
  }
}

export interface ChildRendererOptions extends Pick<Config, 'renderTimeoutMs' | 'renderMemoryMb'> {
  /** The program that renders one diagram and ends. */
  readonly program?: string;
  /** Told of every process, for whoever wants to know that it is gone. */
  readonly onStart?: (child: ChildProcess) => void;
}

const ownProgram = fileURLToPath(new URL('./render-child.mjs', import.meta.url));
/** WebAssembly is compiled in a hurry, as each process renders once. */
const nodeFlags = ['--liftoff-only'];
/** How often the memory of a process is looked at. */
const lookMs = 50;
const outputBytesMax = 16 * 1024 * 1024;
const complaintBytesMax = 64 * 1024;

/**
 * Renders each diagram in a process of its own: a renderer that loops for ever cannot be talked to, but a process can
 * be killed. The process ends with its parent too: it holds the other end of a pipe (`lifeline`).
 */
export function createChildRenderer(options: ChildRendererOptions): Renderer {
  const { program = ownProgram, onStart } = options;
  const heapFlag = `--max-old-space-size=${options.renderMemoryMb}`;
  return {
    async render(source, format, outputType, signal) {
      signal.throwIfAborted();
      // An empty environment: what the server knows is not the diagram's business.
      const child = spawn(process.execPath, [...nodeFlags, heapFlag, program], {
        stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
        env: {},
      });
      child.stdio[3]?.on('error', () => undefined);
      onStart?.(child);
      const closed = once(child, 'close').catch(() => undefined);
      try {
        return await answerOf(child, JSON.stringify({ source, format, outputType }), options, signal);
      } finally {
        // Also after an answer: D2 would take its time to leave.
        child.kill('SIGKILL');
        await closed;
      }
    },
  };
}

/** The answer is one line of JSON, `{ bytes }` or `{ error, code }`, and then that many bytes. */
function answerOf(
  child: ChildProcess,
  request: string,
  { renderTimeoutMs, renderMemoryMb }: ChildRendererOptions,
  signal: AbortSignal,
): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => refuse(`Render timeout after ${renderTimeoutMs} ms`, 'TIMEOUT'), renderTimeoutMs);
    const hungry = (): void => refuse(`The diagram needs more than ${renderMemoryMb} MB of memory`, 'MEMORY');
    const look = setInterval(() => residentMb(child) > renderMemoryMb && hungry(), lookMs);
    const aborted = (): void => settle(() => reject(signal.reason));
    const settle = (how: () => void): void => {
      clearTimeout(timer);
      clearInterval(look);
      signal.removeEventListener('abort', aborted);
      how();
    };
    const refuse = (message: string, code?: RenderErrorCode): void =>
      settle(() => reject(new RenderError(message, code)));
    const answer = createAnswer();
    let complaint = '';

    if (signal.aborted) return aborted();
    signal.addEventListener('abort', aborted, { once: true });
    child.once('error', (error) => refuse(`The renderer could not be started: ${error.message}`));
    child.once('close', (code, killedBy) =>
      complaint.includes('heap out of memory')
        ? hungry()
        : refuse(`The renderer ended without an answer (${killedBy ?? `code ${code}`}) ${complaint.trim()}`.trim()),
    );
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      complaint = (complaint + text).slice(-complaintBytesMax);
    });
    child.stdout?.on('data', (chunk: Buffer) => {
      const read = answer.add(chunk);
      if (read instanceof Error) settle(() => reject(read));
      else if (read) settle(() => resolve(read));
    });
    // A process that died before it read its input is told of by its end.
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(request);
  });
}

/** What the process has in memory, of whatever kind, as the system sees it. 0: nobody can tell. */
function residentMb({ pid }: ChildProcess): number {
  try {
    return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;
  } catch {
    // It is gone, or this is a system without /proc.
    return 0;
  }
}

interface Head {
  readonly bytes?: number;
  readonly error?: string;
  readonly code?: RenderErrorCode;
}

/** Puts the chunks of an answer together. */
function createAnswer(): { add(chunk: Buffer): Uint8Array | RenderError | null } {
  const chunks: Buffer[] = [];
  let length = 0;
  let head: Head | null = null;
  let bodyAt = 0;
  return {
    /** Null: there is more to come. */
    add(chunk) {
      const lineEnd = head ? -1 : chunk.indexOf(0x0a);
      if (lineEnd >= 0) {
        head = parseHead(Buffer.concat([...chunks, chunk.subarray(0, lineEnd)]).toString('utf8'));
        bodyAt = length + lineEnd + 1;
      }
      length += chunk.length;
      if (length > outputBytesMax)
        return new RenderError(`The output is larger than ${outputBytesMax} bytes`, 'SOURCE');
      chunks.push(chunk);
      if (!head) return null;
      if (head.bytes === undefined) return new RenderError(head.error ?? 'The renderer gave no reason', head.code);
      const end = bodyAt + head.bytes;
      return length < end ? null : Buffer.concat(chunks).subarray(bodyAt, end);
    },
  };
}

function parseHead(line: string): Head {
  try {
    return JSON.parse(line) as Head;
  } catch {
    return { error: 'The renderer answered something else than an output' };
  }
}
