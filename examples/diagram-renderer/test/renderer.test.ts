import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { readConfig } from '../src/config.js';
import type { Format } from '../src/diagram.js';
import { type ChildRendererOptions, createChildRenderer } from '../src/renderer.js';
import { fontFiles, png } from '../src/svg.mjs';
import { endless, isAlive, stage, temporaryFolder, until } from './support.js';

const sources: { [F in Format]: string } = {
  graphviz: 'digraph { start -> "Straße" [label="geht"] }',
  d2: 'start -> end: goes\nnote: |md\n  # Title\n  some *text*\n|',
  mermaid: 'graph TD\n  A[Start] -->|yes| B{Check}',
};
const never = new AbortController().signal;
/** 0: it is gone. */
const residentMb = (pid: number): number => {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
};
const pngSignature = '89504e470d0a1a0a';

function pidsOf(options: Partial<Omit<ChildRendererOptions, 'onStart'>>) {
  const pids: number[] = [];
  const onStart: ChildRendererOptions['onStart'] = ({ pid }) => void pids.push(pid!);
  return { pids, renderer: createChildRenderer({ ...readConfig({}), ...options, onStart }) };
}

for (const format of ['graphviz', 'd2', 'mermaid'] as const) {
  test(`003-04 ${format} is rendered to SVG and to PNG, each in a process that is gone afterwards`, async () => {
    const { pids, renderer } = pidsOf({ renderTimeoutMs: 60_000 });
    const svg = Buffer.from(await renderer.render(sources[format], format, 'svg', never)).toString();
    expect(svg).toMatch(/<svg[\s\S]*<\/svg>\s*$/);
    expect(svg).toContain(format === 'd2' ? 'goes' : format === 'mermaid' ? 'Check' : 'Straße');
    // Nothing has to be fetched, and no program has to know CSS variables.
    expect(svg).not.toMatch(/@import|var\(--_|<image/);
    const picture = Buffer.from(await renderer.render(sources[format], format, 'png', never));
    expect(picture.subarray(0, 8).toString('hex')).toBe(pngSignature);
    expect(pids).toHaveLength(2);
    expect(pids.filter(isAlive)).toEqual([]);
  }, 120_000);

  test(`003-14 what ${format} says about a wrong source is the message`, async () => {
    const { pids, renderer } = pidsOf({ renderTimeoutMs: 60_000 });
    await expect(renderer.render('x -> -> {(', format, 'svg', never)).rejects.toMatchObject({
      name: 'RenderError',
      message: {
        graphviz: expect.stringContaining('syntax error in line 1'),
        d2: expect.stringContaining('line 1:1: connection missing destination'),
        mermaid: expect.stringContaining('Invalid mermaid header'),
      }[format],
    });
    expect(pids.filter(isAlive)).toEqual([]);
  }, 120_000);
}

test('003-18 a rendering that takes too long is killed, the job fails with a timeout, and its slot is free again', async () => {
  const { pids, renderer } = pidsOf({ renderTimeoutMs: 2_000, renderMemoryMb: 4_096 });
  const at = await stage({ renderer, env: { QUEUE_MAX_CONCURRENT: '1' } });
  await at.processor.start();
  const job = await at.finished(await at.submit(endless()));
  expect(job).toMatchObject({ status: 'failed', error: 'Render timeout after 2000 ms', errorCode: 'TIMEOUT' });
  expect(pids).toHaveLength(1);
  expect(pids.filter(isAlive)).toEqual([]);
  expect(at.queue.running).toBe(0);
  expect(at.processor.isRunning()).toBe(true);
});

/** Programs that take memory in one of the ways there are, a little at a time, and then all the time there is. */
const hungry = {
  WebAssembly: `const memory = new WebAssembly.Memory({ initial: 1, maximum: 65536 });
    for (let n = 0; n < 60; n++) { memory.grow(256); new Uint8Array(memory.buffer).fill(1); }`,
  buffers: 'const all = []; for (let n = 0; n < 60; n++) all.push(Buffer.alloc(16 << 20, 1));',
  objects: 'const all = []; for (;;) all.push({ n: all.length, text: String(all.length) });',
} as const;

for (const [kind, program] of Object.entries(hungry))
  test(`003-18 a process that takes more memory than it may, as ${kind}, is ended within 200 ms, and its slot is free`, async () => {
    const file = join(await temporaryFolder(), 'hungry.mjs');
    await writeFile(file, `${program} for (;;);`);
    const { pids, renderer } = pidsOf({ renderTimeoutMs: 60_000, renderMemoryMb: 200, program: file });
    const at = await stage({ renderer, env: { QUEUE_MAX_CONCURRENT: '1' } });
    await at.processor.start();
    const tookMs: number[] = [];
    // The best of three: on a machine with more to do than it can, the test itself comes late.
    while (tookMs.length < 3 && !tookMs.some((ms) => ms < 200)) {
      const submitted = at.submit(`number ${tookMs.length}`);
      await until('it runs', () => pids.length > tookMs.length);
      const pid = pids.at(-1)!;
      await until('it has too much', () => residentMb(pid) > 200 || !isAlive(pid));
      const tooMuchAt = performance.now();
      await until('it is gone', () => !isAlive(pid));
      tookMs.push(performance.now() - tooMuchAt);
      expect(await at.finished(await submitted)).toMatchObject({
        status: 'failed',
        error: 'The diagram needs more than 200 MB of memory',
        errorCode: 'MEMORY',
      });
      expect(at.queue.running).toBe(0);
    }
    expect(Math.min(...tookMs)).toBeLessThan(200);
    expect(at.processor.isRunning()).toBe(true);
  });

test('003-18 what a diagram needs in each language is well below the limit', async () => {
  const { renderer } = pidsOf({ renderTimeoutMs: 60_000, renderMemoryMb: readConfig({}).renderMemoryMb });
  for (const format of ['graphviz', 'd2', 'mermaid'] as const)
    expect((await renderer.render(sources[format], format, 'png', never)).length).toBeGreaterThan(100);
}, 60_000);

test('003-18 a process that will not listen is gone all the same', async () => {
  const program = join(await temporaryFolder(), 'deaf.mjs');
  await writeFile(program, "process.on('SIGTERM', () => {}); for (;;);");
  const { pids, renderer } = pidsOf({ renderTimeoutMs: 300, program });
  await expect(renderer.render('x', 'd2', 'svg', never)).rejects.toMatchObject({ name: 'RenderTimeoutError' });
  expect(pids.filter(isAlive)).toEqual([]);
});

test('003-19 when a job is taken away, its process is gone before anybody is told', async () => {
  const taken = new AbortController();
  const renderer = createChildRenderer({
    ...readConfig({}),
    onStart: ({ pid }) => {
      pids.push(pid!);
      taken.abort(new Error('taken away'));
    },
  });
  const pids: number[] = [];
  await expect(renderer.render(endless(), 'graphviz', 'svg', taken.signal)).rejects.toThrow('taken away');
  expect(pids.filter(isAlive)).toEqual([]);
  await expect(renderer.render('x', 'graphviz', 'svg', taken.signal)).rejects.toThrow('taken away');
  expect(pids).toHaveLength(1);
});

test('003-31 a server that is killed leaves no renderer behind', async () => {
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  const program = `
    const { createChildRenderer } = await import(${JSON.stringify(new URL('../src/renderer.ts', import.meta.url).href)});
    let pid;
    const renderer = createChildRenderer({ renderTimeoutMs: 600_000, renderMemoryMb: 4096, onStart: (child) => { pid = child.pid; } });
    const rendering = renderer.render(${JSON.stringify(endless())}, 'graphviz', 'svg', new AbortController().signal);
    // Not before it has got its diagram: without one it would end by itself.
    setImmediate(() => console.log(pid));
    await rendering;
  `;
  const server = spawn(process.execPath, ['--import', tsx, '--input-type=module', '--eval', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void server.kill('SIGKILL'));
  const [line] = (await once(createInterface(server.stdout), 'line')) as [string];
  const pid = Number(line);
  onTestFinished(() => void (isAlive(pid) && process.kill(pid, 'SIGKILL')));
  expect(isAlive(pid)).toBe(true);
  server.kill('SIGKILL');
  await until('the renderer has followed', () => !isAlive(pid));
});

test('003-25 a renderer that dies, or answers nonsense, or too much, is an error like any other', async () => {
  const folder = await temporaryFolder();
  const rendererOf = async (name: string, source: string) => {
    await writeFile(join(folder, name), source);
    return createChildRenderer({ ...readConfig({}), program: join(folder, name) });
  };
  const dies = await rendererOf('dies.mjs', "console.error('out of ink'); process.exit(3);");
  await expect(dies.render('x', 'd2', 'svg', never)).rejects.toThrow(
    'The renderer ended without an answer (code 3) out of ink',
  );
  const killed = await rendererOf('killed.mjs', "process.kill(process.pid, 'SIGKILL');");
  await expect(killed.render('x', 'd2', 'svg', never)).rejects.toThrow('ended without an answer (SIGKILL)');
  const nonsense = await rendererOf('nonsense.mjs', "console.log('hello');");
  await expect(nonsense.render('x', 'd2', 'svg', never)).rejects.toThrow('answered something else than an output');
  const flood = await rendererOf(
    'flood.mjs',
    "const flow = () => { while (process.stdout.write('x'.repeat(65536))); process.stdout.once('drain', flow); }; flow();",
  );
  await expect(flood.render('x', 'd2', 'svg', never)).rejects.toThrow('The output is larger than');
  const missing = createChildRenderer({ ...readConfig({}), program: join(folder, 'missing.mjs') });
  await expect(missing.render('x', 'd2', 'svg', never)).rejects.toThrow('Cannot find module');
});

test('003-04 PNGs are written with the bundled font, whatever fonts the machine has', async () => {
  expect(fontFiles().every((file: string) => existsSync(file))).toBe(true);
  const svg = (text: string, style = ''): string =>
    `<svg xmlns="http://www.w3.org/2000/svg" width="200" height="40"><style>${style}</style><text class="text" x="5" y="25">${text}</text></svg>`;
  const blank = await png(svg(''));
  const [plain, other] = [await png(svg('Straße Ωμέγα Жук')), await png(svg('Strasse Ωμέγα Жук'))];
  expect(Buffer.compare(plain, blank)).not.toBe(0);
  expect(Buffer.compare(plain, other)).not.toBe(0);
  // Fonts that machines tend to have, and one that none has: all are drawn with the one that comes along.
  for (const family of ['DejaVu Sans', 'Arial', 'No such font'])
    expect(await png(svg('Straße Ωμέγα Жук', `.text { font-family: "${family}"; }`))).toEqual(
      await png(svg('Straße Ωμέγα Жук', '.text { font-family: "Inter"; }')),
    );
  // A font that D2 brings along for browsers is replaced, its weight is kept.
  const bold = await png(svg('Straße Ωμέγα Жук', '.text { font-family: "d2-1-font-bold"; }'));
  expect(Buffer.compare(bold, plain)).not.toBe(0);
  expect(Buffer.compare(bold, blank)).not.toBe(0);
});
