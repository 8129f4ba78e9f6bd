import type { EntityService } from './entity-service.js';
import type { Logger } from './logger.js';
import type { Route, RouteRegistry } from './route-registry.js';

export interface RouteGeneratorContext {
  readonly logger: Logger;
  readonly entityService: Pick<EntityService, 'getEntityTypes' | 'listEntities'>;
}

/** Derives the routes of the entities: `/blogs` for the type `blog`, `/blogs/post-1` for its entity `post-1`. */
export class DynamicRouteGenerator {
  constructor(
    private readonly context: RouteGeneratorContext,
    private readonly routeRegistry: RouteRegistry,
  ) {}

  async generateEntityRoutes(): Promise<void> {
    const logger = this.context.logger.child('DynamicRouteGenerator');

    // Clear first, then derive everything again. Nobody has to remember which route a deleted entity had,
    // so no route can outlive its entity.
    let clearedCount = 0;
    for (const route of this.routeRegistry.list()) {
      if (route.sourceEntityType !== undefined) {
        this.routeRegistry.unregister(route.path);
        clearedCount++;
      }
    }
    if (clearedCount > 0) logger.debug(`Cleared ${clearedCount} dynamic routes`);

    for (const entityType of this.context.entityService.getEntityTypes()) {
      await this.generateRoutesForEntityType(entityType, logger);
    }
  }

  private async generateRoutesForEntityType(entityType: string, logger: Logger): Promise<void> {
    const collection = `/${entityType}s`;
    const entities = await this.context.entityService.listEntities(entityType);
    const pages = entities.map(
      (entity): Route => ({
        path: `${collection}/${entity.id}`,
        title: entity.title,
        body: entity.body,
        sourceEntityType: entityType,
      }),
    );
    const index: Route = {
      path: collection,
      title: `${entityType.charAt(0).toUpperCase()}${entityType.slice(1)}s`,
      body: '',
      links: pages.map(({ path, title }) => ({ path, title })),
      sourceEntityType: entityType,
    };
    for (const route of [index, ...pages]) {
      const present = this.routeRegistry.get(route.path);
      // Overriding a static route would turn it into a generated one, and the next build would clear it.
      if (present && present.sourceEntityType === undefined) {
        logger.warn('A static route has this path already', { path: route.path });
        continue;
      }
      this.routeRegistry.register(route);
    }
  }
}
