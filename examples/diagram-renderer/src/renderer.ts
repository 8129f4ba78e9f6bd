import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Config } from './config.js';
import type { Format, OutputType } from './diagram.js';

export interface Renderer {
  /** Rejects with a RenderError. When it has settled, the process that rendered is gone. */
  render(source: string, format: Format, outputType: OutputType, signal: AbortSignal): Promise<Uint8Array>;
}

export class RenderError extends Error {
  constructor(
    message: string,
    readonly code: 'RENDER' | 'TIMEOUT' = 'RENDER',
  ) {
    super(message);
    this.name = code === 'TIMEOUT' ? 'RenderTimeoutError' : 'RenderError';
  }
}

export interface ChildRendererOptions extends Pick<Config, 'renderTimeoutMs'> {
  /** The program that renders one diagram and ends. */
  readonly program?: string;
  /** Told of every process, for whoever wants to know that it is gone. */
  readonly onStart?: (child: ChildProcess) => void;
}

const ownProgram = fileURLToPath(new URL('./render-child.mjs', import.meta.url));
/** WebAssembly is compiled in a hurry, as each process renders once; a diagram that wants a gigabyte is refused. */
const nodeFlags = ['--liftoff-only', '--max-old-space-size=512'];
const outputBytesMax = 16 * 1024 * 1024;
const complaintBytesMax = 64 * 1024;

/**
 * Renders each diagram in a process of its own: a renderer that loops for ever cannot be talked to, but a process can
 * be killed. The process ends with its parent too: it holds the other end of a pipe (`lifeline`).
 */
export function createChildRenderer(options: ChildRendererOptions): Renderer {
  const { renderTimeoutMs, program = ownProgram, onStart } = options;
  return {
    async render(source, format, outputType, signal) {
      signal.throwIfAborted();
      // An empty environment: what the server knows is not the diagram's business.
      const child = spawn(process.execPath, [...nodeFlags, program], {
        stdio: ['pipe', 'pipe', 'pipe', 'pipe'],
        env: {},
      });
      child.stdio[3]?.on('error', () => undefined);
      onStart?.(child);
      const closed = once(child, 'close').catch(() => undefined);
      try {
        return await answerOf(child, JSON.stringify({ source, format, outputType }), renderTimeoutMs, signal);
      } finally {
        // Also after an answer: D2 would take its time to leave.
        child.kill('SIGKILL');
        await closed;
      }
    },
  };
}

/** The answer is one line of JSON, `{ bytes }` or `{ error }`, and then that many bytes. */
function answerOf(child: ChildProcess, request: string, timeoutMs: number, signal: AbortSignal): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => settle(() => reject(new RenderError(`Render timeout after ${timeoutMs} ms`, 'TIMEOUT'))),
      timeoutMs,
    );
    const aborted = (): void => settle(() => reject(signal.reason));
    const settle = (how: () => void): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', aborted);
      how();
    };
    const refuse = (message: string): void => settle(() => reject(new RenderError(message)));
    const answer = createAnswer();
    let complaint = '';

    if (signal.aborted) return aborted();
    signal.addEventListener('abort', aborted, { once: true });
    child.once('error', (error) => refuse(`The renderer could not be started: ${error.message}`));
    child.once('close', (code, killedBy) =>
      refuse(`The renderer ended without an answer (${killedBy ?? `code ${code}`}) ${complaint.trim()}`.trim()),
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

/** Puts the chunks of an answer together. */
function createAnswer(): { add(chunk: Buffer): Uint8Array | RenderError | null } {
  const chunks: Buffer[] = [];
  let length = 0;
  let head: { readonly bytes?: number; readonly error?: string } | null = null;
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
      if (length > outputBytesMax) return new RenderError(`The output is larger than ${outputBytesMax} bytes`);
      chunks.push(chunk);
      if (!head) return null;
      if (head.bytes === undefined) return new RenderError(head.error ?? 'The renderer gave no reason');
      const end = bodyAt + head.bytes;
      return length < end ? null : Buffer.concat(chunks).subarray(bodyAt, end);
    },
  };
}

function parseHead(line: string): { readonly bytes?: number; readonly error?: string } {
  try {
    return JSON.parse(line) as { bytes?: number; error?: string };
  } catch {
    return { error: 'The renderer answered something else than an output' };
  }
}
