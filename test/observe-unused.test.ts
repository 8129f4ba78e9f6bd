// What nobody asked for is not loaded: neither the package of the metrics nor that of the spans.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '..');

/** Which of the two packages a process has loaded after this. */
async function loadedAfter(code: string): Promise<unknown> {
  const program = `
    import { createRequire } from 'node:module';
    const { open, defineJob } = await import('./src/index.ts');
    const job = defineJob('job', { run: () => 'done' });
    async function run(queue) {
      const { id } = await queue.enqueue(job, null);
      await queue.work([job]);
      await queue.wait(id);
    }
    ${code}
    const { cache } = createRequire(process.cwd() + '/x.js');
    const has = (name) => Object.keys(cache).some((path) => path.includes('/node_modules/' + name + '/'));
    console.log(JSON.stringify(['prom-client', '@opentelemetry/api'].filter(has)));`;
  const args = ['--import', 'tsx', '--input-type=module', '--eval', program];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
  return JSON.parse(stdout);
}

describe('metrics and tracing that nobody asked for', () => {
  it('are not loaded by a queue that works, cleans up and looks for alerts', async () => {
    const code = `const queue = await open('memory:', { alerts: {} });
      await run(queue); await queue.sweep(); await queue.alerts(); await queue.close();`;
    expect(await loadedAfter(code)).toEqual([]);
  });

  it('are loaded by whoever asks', async () => {
    const metrics = `const queue = await open('memory:'); await run(queue); await queue.metrics(); await queue.close();`;
    expect(await loadedAfter(metrics)).toContain('prom-client');
    const tracing = `const queue = await open('memory:', { tracing: true }); await run(queue); await queue.close();`;
    expect(await loadedAfter(tracing)).toEqual(['@opentelemetry/api']);
  });
});
