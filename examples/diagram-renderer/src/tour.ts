import type { App } from './app.js';
import type { Diagram } from './diagram.js';

const samples = {
  graphviz: 'digraph { rankdir=LR; pending -> rendering -> completed; rendering -> failed }',
  d2: 'client -> server: POST /render\nserver -> renderer: one process each\nserver -> client: short link',
  mermaid: 'graph LR\n  A[Poll] --> B{Job found?}\n  B -->|no| A\n  B -->|yes| C[Render]',
} as const;

interface Answer {
  readonly jobId?: string;
  readonly status?: string;
  readonly shortlink?: string;
  readonly url?: string;
  readonly error?: string;
}

/** Shows the server at work, over HTTP as any caller would. */
export async function tour(app: App, address: string, say: (text: string) => void): Promise<void> {
  const post = async (diagram: Diagram, mode: string): Promise<{ response: Response; body: Answer }> => {
    const headers = { 'Content-Type': 'application/json' };
    const response = await fetch(`${address}/render?mode=${mode}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(diagram),
    });
    return { response, body: (await response.json()) as Answer };
  };

  say('Three languages, two outputs');
  for (const [format, source] of Object.entries(samples) as [keyof typeof samples, string][]) {
    for (const outputType of ['svg', 'png'] as const) {
      const { body } = await post({ source, format, outputType }, 'sync');
      const bytes = (await (await fetch(`${address}${body.url}`)).arrayBuffer()).byteLength;
      say(`  ${format.padEnd(8)} → ${outputType}  ${body.url}  ${bytes} bytes`);
    }
  }
  const { body } = await post({ source: samples.d2, format: 'd2', outputType: 'svg' }, 'async');
  say(`  d2       → svg  ${body.url}  again: the same link, nothing was rendered\n`);

  say('More than fits: 2 render, 2 wait, the rest is turned away');
  const crowd = Array.from({ length: 8 }, (_, n) =>
    post({ source: `digraph { crowd -> "${n}" }`, format: 'graphviz', outputType: 'svg' }, 'sync'),
  );
  const answers = await Promise.all(crowd);
  const refused = answers.find(({ response }) => response.status === 429);
  say(
    `  ${answers.filter(({ response }) => response.ok).length} rendered, ${answers.filter(({ response }) => response.status === 429).length} refused`,
  );
  if (refused) say(`  429 ${refused.body.error}, Retry-After: ${refused.response.headers.get('retry-after')}\n`);

  say('A mistake');
  const wrong = await post({ source: 'digraph { a -> ', format: 'graphviz', outputType: 'svg' }, 'async');
  const job = await app.parts.jobStore.wait(wrong.body.jobId ?? '', AbortSignal.timeout(30_000));
  say(`  job ${job.id}: ${job.status}, "${job.error}"\n`);

  const { total, leftBehind } = await app.store.stats();
  say(
    `Jobs: ${total.completed} completed, ${total.failed} failed, ${total.processing} rendering; left behind ${leftBehind}.`,
  );
}
