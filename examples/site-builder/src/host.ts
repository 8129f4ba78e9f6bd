import {
  type JobType,
  type OpenOptions,
  open,
  type Queue,
  type StopReport,
  type Worker,
  type WorkOptions,
} from 'lastout';
import { EntityService } from './entity-service.js';
import { EventBus } from './event-bus.js';
import type { Logger } from './logger.js';
import type { NoInput, ServicePluginContext, SiteBuilderPlugin } from './plugin.js';
import type { BuildResult } from './site-builder.js';

/** What a plugin runs in: one event bus, one entity service, one queue. */
export class Host {
  readonly bus = new EventBus();
  readonly entityService = new EntityService(this.bus);
  private readonly jobTypes = new Map<string, JobType<NoInput, BuildResult>>();
  private readonly plugins = new Set<SiteBuilderPlugin>();

  private constructor(
    readonly queue: Queue,
    private readonly logger: Logger,
  ) {}

  static async open(store: string, options: OpenOptions & { readonly logger: Logger }): Promise<Host> {
    return new Host(await open(store, options), options.logger);
  }

  async register(plugin: SiteBuilderPlugin): Promise<void> {
    const context: ServicePluginContext = {
      logger: this.logger,
      entityService: this.entityService,
      subscribe: (event, handler) => this.bus.subscribe(event, handler),
      registerJob: (type) => void this.jobTypes.set(type.name, type),
      // By definition, not by name alone: the job gets what its definition says, here the exclusiveKey.
      enqueueJob: (type, input, options) => {
        const known = this.jobTypes.get(type);
        return known ? this.queue.enqueue(known, input, options) : this.queue.enqueue(type, input, options);
      },
      findJobs: (filter) => this.queue.find(filter),
    };
    await plugin.onRegister(context);
    this.plugins.add(plugin);
  }

  /** Runs the jobs of the plugins that are registered now. */
  async startWorker(options: WorkOptions = { concurrency: 1 }): Promise<Worker> {
    return this.queue.work([...this.jobTypes.values()], options);
  }

  /** Nothing new is asked for, then what runs may end. A build that still waits stays in the store for the next start. */
  async shutdown(): Promise<StopReport> {
    for (const plugin of this.plugins) await plugin.onShutdown();
    return this.queue.close();
  }
}
