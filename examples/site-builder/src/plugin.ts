import { randomUUID } from 'node:crypto';
import { defineJob, type Filter, type Job, type JobOptions, type JobType, type Page } from 'lastout';
import { type BuildStatus, readBuildStatus } from './build-status.js';
import { DynamicRouteGenerator } from './dynamic-route-generator.js';
import type { EntityService } from './entity-service.js';
import { type EntityEvent, type EntityHandler, entityEvents } from './event-bus.js';
import { createLogger, type Logger } from './logger.js';
import type { PageView } from './page.js';
import { type Route, RouteRegistry } from './route-registry.js';
import { type BuildResult, SiteBuilder } from './site-builder.js';

/** A build takes no input: it reads what is there when it starts. */
export type NoInput = Record<string, never>;

/** What the host gives to a plugin. */
export interface ServicePluginContext {
  readonly logger: Logger;
  readonly entityService: Pick<EntityService, 'getEntityTypes' | 'listEntities'>;
  subscribe(event: EntityEvent, handler: EntityHandler): () => void;
  registerJob(type: JobType<NoInput, BuildResult>): void;
  enqueueJob(type: string, input: NoInput, options: JobOptions): Promise<unknown>;
  findJobs(filter: Filter & { limit: number }): Promise<Page<Job>>;
}

/** All that registering takes is events. Without a queue each rebuild that cannot be asked for is logged. */
export type PluginContext = Pick<ServicePluginContext, 'subscribe'> & Partial<ServicePluginContext>;

const silent = createLogger(() => {});
const noEntities: ServicePluginContext['entityService'] = { getEntityTypes: () => [], listEntities: async () => [] };

export interface SiteBuilderConfig {
  readonly outputDir: string;
  /** Entities of these types do not trigger a rebuild; the next build shows their changes all the same. */
  readonly excludedTypes?: readonly string[];
  /** Pages that belong to no entity. */
  readonly staticRoutes?: readonly Route[];
  readonly render?: (page: PageView) => string | Promise<string>;
  /** How often a build is tried before it counts as failed; 3 by default. */
  readonly attempts?: number;
}

/** Keeps a built site up to date: every change of an entity asks for a build, and the queue makes one of many. */
export class SiteBuilderPlugin {
  readonly id = 'site-builder';
  readonly routeRegistry = new RouteRegistry();
  private context: PluginContext | null = null;
  private logger: Logger = silent;
  private unsubscribeFunctions: Array<() => void> = [];
  /** Enqueues that an event has begun: shutdown lets them end. */
  private readonly admitted = new Set<Promise<void>>();

  constructor(private readonly config: SiteBuilderConfig) {
    for (const route of config.staticRoutes ?? []) this.routeRegistry.register(route);
  }

  async onRegister(context: PluginContext): Promise<void> {
    if (this.context) throw new Error(`Plugin "${this.id}" is registered already; shut it down first`);
    this.context = context;
    this.logger = (context.logger ?? silent).child(this.id);
    try {
      context.registerJob?.(this.defineSiteBuild(context));
      this.setupAutoRebuild(context);
    } catch (error) {
      // The host does not know of this plugin yet, so nobody else would end the subscriptions made so far.
      await this.onShutdown();
      throw error;
    }
  }

  /** Safe to call twice. Returns when nothing of this plugin is under way any more. */
  async onShutdown(): Promise<void> {
    const { context, logger } = this;
    // First of all: an event that is already on its way to a handler finds the door closed.
    this.context = null;
    for (const unsubscribe of this.unsubscribeFunctions) {
      try {
        unsubscribe();
      } catch (error) {
        // One that throws must not keep the others subscribed.
        logger.error('Failed to unsubscribe', { error });
      }
    }
    this.unsubscribeFunctions = [];
    await Promise.allSettled(this.admitted);
    if (context) logger.debug('Cleaned up event subscriptions');
  }

  /** Whether a build waits or runs, and how the last ones went. */
  async status(): Promise<BuildStatus> {
    if (!this.context) throw new Error(`Plugin "${this.id}" is not registered`);
    if (!this.context.findJobs) throw new Error(`The host of plugin "${this.id}" has no queue`);
    return readBuildStatus(this.context.findJobs);
  }

  private defineSiteBuild({ entityService = noEntities }: PluginContext): JobType<NoInput, BuildResult> {
    const builder = new SiteBuilder({
      outputDir: this.config.outputDir,
      routeRegistry: this.routeRegistry,
      routeGenerator: new DynamicRouteGenerator({ logger: this.logger, entityService }, this.routeRegistry),
      ...(this.config.render && { render: this.config.render }),
    });
    return defineJob<NoInput, BuildResult>('site-build', {
      // Deduplication alone lets a second worker start the successor while this build still runs.
      exclusiveKey: 'site-build',
      attempts: this.config.attempts ?? 3,
      keep: { completed: { age: '24h', count: 20 }, failed: { age: '7d', count: 20 } },
      run: ({ signal }) => builder.build(signal),
    });
  }

  private setupAutoRebuild(context: PluginContext): void {
    const excludedTypes = this.config.excludedTypes ?? ['site-info', 'profile'];

    // The change is stored before its event is published. A pending build has not read anything yet and will see it;
    // a running one may have read too early, and then `skip` lets one successor in. Either way no change is lost.
    const scheduleRebuild = async (): Promise<void> => {
      try {
        if (!context.enqueueJob) throw new Error('The host has no queue');
        await context.enqueueJob(
          'site-build',
          {},
          {
            priority: 0,
            source: this.id,
            metadata: { rootJobId: randomUUID(), operationType: 'content_operations' },
            deduplication: 'skip',
          },
        );
      } catch (error) {
        this.logger.error('Failed to enqueue rebuild', { error });
      }
    };

    for (const event of entityEvents) {
      const unsubscribe = context.subscribe(event, async (msg) => {
        const { entityType } = msg.payload;
        if (this.context === context && !excludedTypes.includes(entityType)) await this.admit(scheduleRebuild());
        return { success: true };
      });
      this.unsubscribeFunctions.push(unsubscribe);
    }
  }

  private async admit(enqueue: Promise<void>): Promise<void> {
    this.admitted.add(enqueue);
    try {
      await enqueue;
    } finally {
      this.admitted.delete(enqueue);
    }
  }
}
