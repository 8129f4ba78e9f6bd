import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { DynamicRouteGenerator } from './dynamic-route-generator.js';
import { type PageView, renderPage } from './page.js';
import type { Route, RouteRegistry } from './route-registry.js';

export interface SiteBuilderOptions {
  readonly outputDir: string;
  readonly routeRegistry: RouteRegistry;
  readonly routeGenerator: DynamicRouteGenerator;
  readonly render?: (page: PageView) => string | Promise<string>;
}

/** What a build answers; it is stored as the result of its job. */
export interface BuildResult {
  readonly pages: number;
  readonly revision: number;
}

/** A published revision: the path of every page and the file that holds it, relative to the output folder. */
export interface Site {
  readonly revision: number;
  readonly files: { readonly [path: string]: string };
}

/** The newest is served; the one before stays for the requests that are still reading it. */
const revisionsKept = 2;

const wellFormedPath = /^(?:\/|(?:\/[a-z0-9-]+)+)$/;

/**
 * Writes the site into `revisions/<n>` and then points `site.json` at it, so that a reader sees the old site or the
 * new one, never half of one. It counts on running alone: the job's exclusiveKey sees to that.
 */
export class SiteBuilder {
  constructor(private readonly options: SiteBuilderOptions) {}

  async build(signal?: AbortSignal): Promise<BuildResult> {
    const { outputDir, routeRegistry, routeGenerator } = this.options;
    await routeGenerator.generateEntityRoutes();
    // From here on the build looks at this list alone. What changes later has enqueued the next build.
    const routes = routeRegistry.list();
    const revision = ((await readSite(outputDir))?.revision ?? 0) + 1;

    const folder = join('revisions', String(revision));
    // A build that died half-way left its folder here without ever being published.
    await rm(join(outputDir, folder), { recursive: true, force: true });
    const files: Record<string, string> = {};
    const navigation = routes.filter(isTopLevel).map(({ path, title }) => ({ path, title }));
    const render = this.options.render ?? renderPage;
    for (const route of routes) {
      signal?.throwIfAborted();
      const file = join(folder, fileOf(route.path));
      await mkdir(dirname(join(outputDir, file)), { recursive: true });
      await writeFile(join(outputDir, file), await render({ route, navigation, revision }));
      files[route.path] = file;
    }

    // A build that was given up (cancelled, timed out, taken over) must not publish over its successor.
    signal?.throwIfAborted();
    await this.publish({ revision, files });
    await this.prune(revision);
    return { pages: routes.length, revision };
  }

  private async publish(site: Site): Promise<void> {
    const file = join(this.options.outputDir, 'site.json');
    await writeFile(`${file}.next`, JSON.stringify(site));
    await rename(`${file}.next`, file);
  }

  private async prune(newest: number): Promise<void> {
    const folder = join(this.options.outputDir, 'revisions');
    const old = (await readdir(folder)).filter((name) => Number(name) <= newest - revisionsKept);
    await Promise.all(old.map((name) => rm(join(folder, name), { recursive: true, force: true })));
  }
}

/** The site as it stands on disk; null before the first build. */
export async function readSite(outputDir: string): Promise<Site | null> {
  try {
    return JSON.parse(await readFile(join(outputDir, 'site.json'), 'utf8')) as Site;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

function isTopLevel(route: Route): boolean {
  return route.path.lastIndexOf('/') === 0;
}

function fileOf(path: string): string {
  if (!wellFormedPath.test(path)) throw new Error(`Route "${path}" cannot be a file name`);
  return join(path.slice(1), 'index.html');
}
