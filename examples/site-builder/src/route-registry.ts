export interface Route {
  /** `/`, `/blogs`, `/blogs/post-1` */
  readonly path: string;
  readonly title: string;
  /** Markdown. */
  readonly body: string;
  /** What a collection page lists. */
  readonly links?: readonly { readonly path: string; readonly title: string }[];
  /** Only generated routes have it: that is how the generator knows which routes are its own to clear. */
  readonly sourceEntityType?: string;
}

/** Which pages the site has. */
export class RouteRegistry {
  private readonly routes = new Map<string, Route>();

  /** A route at the same path is overridden. */
  register(route: Route): void {
    this.routes.set(route.path, route);
  }

  unregister(path: string): boolean {
    return this.routes.delete(path);
  }

  get(path: string): Route | undefined {
    return this.routes.get(path);
  }

  list(): readonly Route[] {
    return [...this.routes.values()];
  }

  size(): number {
    return this.routes.size;
  }

  clear(): void {
    this.routes.clear();
  }
}
