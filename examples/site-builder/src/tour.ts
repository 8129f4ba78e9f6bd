import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Job } from 'lastout';
import { readContent } from './content.js';
import { Handshake } from './handshake.js';
import type { EntityFields } from './entity-service.js';
import type { Host } from './host.js';
import type { Narrator } from './narrator.js';
import { renderPage } from './page.js';
import { SiteBuilderPlugin } from './plugin.js';
import type { BuildResult } from './site-builder.js';

/**
 * Shows the plugin at work: an import, the bulk import of 51 changes, a deletion, a change that builds nothing. Told to end, it
 * throws the reason at its next step, and holds no build.
 */
export async function tour(host: Host, outputDir: string, narrator: Narrator, ending: AbortSignal): Promise<void> {
  const stage = new Stage(host, outputDir, narrator, ending);
  await host.register(stage.plugin);
  await importContent(stage);
  await bulkImport(stage);
  await tidyUp(stage);
}

class Stage {
  /** The bulk import must meet a running build, so a build can be held at its first page. */
  door: Handshake | null = null;
  readonly plugin: SiteBuilderPlugin;

  constructor(
    readonly host: Host,
    readonly outputDir: string,
    readonly narrator: Narrator,
    private readonly ending: AbortSignal,
  ) {
    this.plugin = new SiteBuilderPlugin({
      outputDir,
      staticRoutes: [{ path: '/', title: 'Home', body: 'Built by jobs that leave nothing behind.' }],
      render: async (page) => {
        await this.door?.pass();
        return renderPage(page);
      },
    });
  }

  async create(entityType: string, fields: EntityFields, id: string): Promise<void> {
    this.ending.throwIfAborted();
    await this.host.entityService.createEntity(entityType, fields, id);
  }

  /** The next build waits at this door until it is released, or until everything ends. */
  holdBuild(): Handshake {
    this.ending.throwIfAborted();
    const door = new Handshake();
    this.ending.addEventListener('abort', door.release, { once: true });
    this.door = door;
    return door;
  }

  async newestBuild(): Promise<Job> {
    this.ending.throwIfAborted();
    const [newest] = (await this.plugin.status()).recent;
    if (!newest) throw new Error('No build was asked for');
    return newest;
  }

  async built({ id }: Job): Promise<BuildResult & { readonly ms: number }> {
    const { result, startedAt, completedAt } = await this.host.queue.wait(id);
    return { ...(result as unknown as BuildResult), ms: Number(completedAt) - Number(startedAt) };
  }

  async postsIn({ revision }: BuildResult): Promise<number> {
    const folder = join(this.outputDir, 'revisions', String(revision), 'posts');
    return (await readdir(folder, { withFileTypes: true })).filter((entry) => entry.isDirectory()).length;
  }
}

async function importContent(stage: Stage): Promise<void> {
  const { host, narrator } = stage;
  narrator.say('Importing content/');
  for (const { entityType, id, fields } of await readContent(join(import.meta.dirname, '../content'))) {
    await stage.create(entityType, fields, id);
    narrator.say(`  + ${entityType}/${id}`);
  }
  narrator.say(`  One build is pending; ${narrator.skipped} changes found it so and were skipped`);
  const worker = await host.startWorker();
  const { pages, ms } = await stage.built(await stage.newestBuild());
  narrator.say(`  ✔ ${pages} pages in ${ms} ms`);
  // Stopped, so that the worker looks again only after the next 49 changes.
  await worker.stop();
}

async function bulkImport(stage: Stage): Promise<void> {
  const { host, narrator } = stage;
  narrator.say('\nBulk import: 51 posts');
  const create = async (n: number): Promise<'enqueued' | 'skipped'> => {
    const skippedBefore = narrator.skipped;
    await stage.create('post', { title: `Post ${n}`, body: `Number ${n} of 51.` }, `post-${n}`);
    return narrator.skipped === skippedBefore ? 'enqueued' : 'skipped';
  };
  const buildsSoFar = async (): Promise<number> => (await host.queue.find({ type: 'site-build' })).items.length;
  const buildsBefore = await buildsSoFar();
  const door = stage.holdBuild();

  narrator.say(`  post 1       ${await create(1)}: Build #1 is pending`);
  let skipped = 0;
  for (let n = 2; n <= 49; n++) if ((await create(n)) === 'skipped') skipped++;
  narrator.say(`  posts 2–49   ${skipped} skipped: Build #1 has read nothing yet and will see them`);
  const build1 = await stage.newestBuild();
  await host.startWorker();
  await door.arrived;
  narrator.say('               the worker picks up Build #1, which reads what is there');
  narrator.say(`  post 50      ${await create(50)}: Build #1 has read too early, so Build #2 is pending`);
  narrator.say(`  post 51      ${await create(51)}: Build #2 will see it`);
  const build2 = await stage.newestBuild();
  door.release();

  for (const [name, build] of Object.entries({ 'Build #1': build1, 'Build #2': build2 })) {
    const built = await stage.built(build);
    narrator.say(`  ✔ ${name}   ${await stage.postsIn(built)} posts, ${built.pages} pages in ${built.ms} ms`);
  }
  narrator.say(`  51 changes → ${(await buildsSoFar()) - buildsBefore} builds`);
}

async function tidyUp(stage: Stage): Promise<void> {
  const { host, narrator, plugin } = stage;
  narrator.say('\nA deletion, and a change that builds nothing');
  const before = plugin.routeRegistry.size();
  await host.entityService.deleteEntity('post', 'post-1');
  await stage.built(await stage.newestBuild());
  const page = plugin.routeRegistry.get('/posts/post-1') ? 'its page is still there' : 'its page is gone';
  narrator.say(`  − post/post-1            routes ${before} → ${plugin.routeRegistry.size()}, ${page}`);
  await host.entityService.updateEntity('profile', { title: 'The caretaker, at night' }, 'the-caretaker');
  const { queued, building } = await plugin.status();
  narrator.say(
    `  ~ profile/the-caretaker  ${queued || building ? 'a build is on its way' : 'no build: profiles are excluded'}`,
  );
}
