import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { App } from '../src/app.js';
import { readConfig } from '../src/config.js';
import { undrawnMermaid } from '../src/diagram.js';
import { recordingLogger, temporaryFolder, until } from './support.js';

/** The server with its real renderer. */
async function serve(env: { [name: string]: string } = {}) {
  const config = readConfig({ PORT: '0', JOB_DB_PATH: join(await temporaryFolder(), 'jobs.db'), ...env });
  const app = await App.open(config, recordingLogger().logger);
  onTestFinished(() => app.close());
  const address = await app.start();
  const post = async (diagram: object, query = '') => {
    const response = await fetch(`${address}/render${query}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify(diagram),
    });
    return { status: response.status, body: (await response.json()) as { jobId: string; error: string } };
  };
  const finished = async (id: string) => {
    let job = { status: '' };
    await until('the job has ended', async () => {
      job = (await (await fetch(`${address}/jobs/${id}`)).json()) as { status: string };
      return !['pending', 'rendering'].includes(job.status);
    });
    return job;
  };
  return { app, post, finished };
}

const mistakes = [
  ['graphviz', 'digraph { a -> ', 'syntax error in line 1'],
  ['graphviz', 'not a graph at all', 'syntax error in line 1'],
  ['d2', 'x -> -> {(', 'connection missing destination'],
  ['d2', 'a: { shape: dodecahedron }', 'unknown shape "dodecahedron"'],
  ['d2', '...@other', 'failed to import "other.d2"'],
  ['d2', 'a: |md\n  <b>x\n|', 'malformed Markdown'],
  ['mermaid', 'grph TD\n  A --> B', 'Invalid mermaid header: "grph TD"'],
  ['mermaid', 'stateDiagram-v2 x', 'Invalid mermaid header'],
] as const;

test('003-14 003-06 a mistake in a source is 422 for who waits and in what is said of its job, in each language', async () => {
  const { post, finished } = await serve();
  for (const [format, source, message] of mistakes) {
    const waited = await post({ format, source }, '?mode=sync');
    expect(waited).toMatchObject({ status: 422, body: { error: expect.stringContaining(message) } });
    const { body } = await post({ format, source });
    expect(await finished(body.jobId)).toMatchObject({
      status: 'failed',
      error: waited.body.error,
      errorCode: 'SOURCE',
      errorStatus: 422,
    });
  }
}, 120_000);

test('comments and settings may stand before a diagram of Mermaid', async () => {
  const { post } = await serve();
  const head = '---\ntitle: x\n---\n%%{init: {"theme": "dark"}}%%\n\n  %% note\n';
  for (const source of ['sequenceDiagram\n  A->>B: x', 'erDiagram\n  A ||--o{ B : has', 'graph TD\n  A --> B'])
    expect((await post({ format: 'mermaid', source: head + source }, '?mode=sync')).status).toBe(200);
}, 60_000);

test('003-14 a diagram that takes too long or too much memory is 422 with the reason, too', async () => {
  const source = `digraph { ${Array.from({ length: 300 }, (_, n) => `a${n} -> {${Array.from({ length: 60 }, (_, m) => `a${(n * 7 + m * 13) % 300}`).join(' ')}}`).join(';')} }`;
  const slow = await serve({ RENDER_TIMEOUT_MS: '700', RENDER_MEMORY_MB: '4096' });
  expect(await slow.post({ format: 'graphviz', source }, '?mode=sync')).toMatchObject({
    status: 422,
    body: { error: 'Render timeout after 700 ms' },
  });
  const small = await serve({ RENDER_MEMORY_MB: '30' });
  const { jobId } = (await small.post({ format: 'd2', source: 'a -> b' })).body;
  expect(await small.finished(jobId)).toMatchObject({
    status: 'failed',
    error: 'The diagram needs more than 30 MB of memory',
    errorCode: 'MEMORY',
    errorStatus: 422,
  });
}, 60_000);

test('kinds of Mermaid that the renderer does not draw are refused by name, in either mode, and leave no job', async () => {
  const { app, post } = await serve();
  expect(undrawnMermaid.length).toBeGreaterThan(15);
  for (const kind of undrawnMermaid)
    for (const query of ['', '?mode=sync'])
      expect(await post({ format: 'mermaid', source: `${kind}\n  x` }, query)).toMatchObject({
        status: 422,
        body: { error: expect.stringContaining(`Mermaid's ${kind} is not drawn here; these are: flowchart`) },
      });
  for (const source of [
    '---\ntitle: x\n---\npie title x',
    '%%{init: {"theme": "dark"}}%%\n\n  %% note\n  GANTT\n',
    'mindmap\r\n  root',
    'C4Context',
  ])
    expect((await post({ format: 'mermaid', source })).status).toBe(422);
  expect((await app.store.stats()).total).toMatchObject({ pending: 0, processing: 0, completed: 0, failed: 0 });
  // A word that only begins like one of them, and another language.
  expect((await post({ format: 'mermaid', source: 'graph TD\n  pie --> gantt' }, '?mode=sync')).status).toBe(200);
  expect((await post({ format: 'd2', source: 'pie' })).status).toBe(202);
}, 60_000);
