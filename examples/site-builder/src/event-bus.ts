export const entityEvents = ['entity:created', 'entity:updated', 'entity:deleted'] as const;
export type EntityEvent = (typeof entityEvents)[number];

export interface EntityMessage {
  readonly payload: { readonly entityType: string; readonly entityId: string };
}
export interface HandlerResult {
  readonly success: boolean;
  readonly error?: unknown;
}
export type EntityHandler = (message: EntityMessage) => Promise<HandlerResult>;

/** Tells subscribers what happened to an entity. It knows nothing of jobs and nothing of builds. */
export class EventBus {
  private readonly handlers = new Map<EntityEvent, Set<EntityHandler>>();

  /** The returned function ends this one subscription; calling it again does nothing. */
  subscribe(event: EntityEvent, handler: EntityHandler): () => void {
    // Wrapped, so that the same handler may subscribe twice and each subscription ends by itself.
    const own: EntityHandler = (message) => handler(message);
    const handlers = this.handlers.get(event) ?? new Set();
    this.handlers.set(event, handlers.add(own));
    return () => {
      handlers.delete(own);
    };
  }

  /** Answers when every handler has: a publisher that awaits this knows that the rebuild is enqueued. */
  async publish(event: EntityEvent, payload: EntityMessage['payload']): Promise<readonly HandlerResult[]> {
    // A copy: handlers may unsubscribe while the event is on its way.
    const handlers = [...(this.handlers.get(event) ?? [])];
    return Promise.all(
      handlers.map(async (handler) => {
        try {
          return await handler({ payload });
        } catch (error) {
          // The entity has changed already. A subscriber's failure is its own, not the publisher's.
          return { success: false, error };
        }
      }),
    );
  }

  get subscriptionCount(): number {
    let count = 0;
    for (const handlers of this.handlers.values()) count += handlers.size;
    return count;
  }
}
