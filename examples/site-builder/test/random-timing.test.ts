import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { EntityService } from '../src/entity-service.js';
import { Handshake } from '../src/handshake.js';
import { Host } from '../src/host.js';
import { renderPage } from '../src/page.js';
import { SiteBuilderPlugin } from '../src/plugin.js';
import { readSite } from '../src/site-builder.js';
import { expect, onTestFinished, test } from 'vitest';
import { active, idle, recordingLogger, storeUrl, stores, temporaryFolder } from './support.js';

const seeds = 200;

/** mulberry32: the same seed tells the same story. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

async function titles(entityService: EntityService): Promise<Record<string, string>> {
  const posts = await entityService.listEntities('post');
  return Object.fromEntries(posts.map(({ id, title }) => [`/posts/${id}`, title]));
}

/** What a visitor of the published site would read. */
async function publishedTitles(outputDir: string): Promise<Record<string, string | undefined>> {
  const files = Object.entries((await readSite(outputDir))?.files ?? {}).filter(([path]) => path.startsWith('/posts/'));
  const pages = files.map(async ([path, file]) => {
    const html = await readFile(join(outputDir, file), 'utf8');
    return [path, /<h1>(.*)<\/h1>/.exec(html)?.[1]] as const;
  });
  return Object.fromEntries(await Promise.all(pages));
}

for (const store of stores) {
  test(`001-43 001-44 at any timing there is one build that runs, one that waits, and the last has it all (${store})`, async () => {
    const outputDir = await temporaryFolder();
    const { logger } = recordingLogger();
    const host = await Host.open(await storeUrl(store), { logger });
    onTestFinished(async () => void (await host.shutdown()));
    const { entityService, queue } = host;

    let pick = random(0);
    // A step is a page rendered or a build ended.
    let step = new Handshake();
    const stepDone = (): void => {
      void step.pass();
      step = new Handshake();
    };
    queue.on('completed', stepDone);
    const nextStep = async (): Promise<void> => {
      const next = step.arrived;
      if ((await active(queue)).length > 0) await next;
    };
    const letTimePass = async (): Promise<void> => {
      // Nothing, a few turns of the event loop, some steps of a build, or until all is quiet.
      const how = pick(4);
      if (how === 1) for (let turns = pick(6); turns > 0; turns--) await setImmediate();
      if (how === 2) for (let steps = pick(4); steps > 0; steps--) await nextStep();
      if (how === 3 && pick(3) === 0) await idle(queue);
    };
    const most = { processing: 0, pending: 0 };
    const look = async (): Promise<void> => {
      const jobs = await active(queue);
      for (const state of ['processing', 'pending'] as const) {
        most[state] = Math.max(most[state], jobs.filter((job) => job.state === state).length);
      }
    };
    const plugin = new SiteBuilderPlugin({
      outputDir,
      render: async (page) => {
        await look();
        stepDone();
        return renderPage(page);
      },
    });
    await host.register(plugin);
    // More slots and workers than one build needs: only the queue keeps the builds apart.
    await host.startWorker({ concurrency: 4 });
    await host.startWorker({ concurrency: 4 });

    let changes = 0;
    const changeOne = async (n: number): Promise<void> => {
      const id = `post-${pick(3)}`;
      const title = `Version ${n}`;
      changes++;
      if (!entityService.getEntity('post', id)) await entityService.createEntity('post', { title }, id);
      else if (pick(3) === 0) await entityService.deleteEntity('post', id);
      else await entityService.updateEntity('post', { title }, id);
    };
    for (let seed = 1; seed <= seeds; seed++) {
      pick = random(seed);
      const under: Promise<void>[] = [];
      for (let n = 1 + pick(8); n > 0; n--) {
        await letTimePass();
        under.push(changeOne(changes));
        if (pick(2) === 0) await look();
      }
      await Promise.all(under);
      await look();
      await idle(queue);
      expect([seed, await publishedTitles(outputDir)]).toEqual([seed, await titles(entityService)]);
      expect([seed, most]).toEqual([seed, { processing: 1, pending: 1 }]);
    }
    const { revision } = (await readSite(outputDir)) ?? { revision: 0 };
    // It did happen: many builds, and fewer than changes.
    expect(revision).toBeGreaterThan(seeds);
    expect(revision).toBeLessThan(changes);
  }, 60_000);
}
