import type { EntityEvent, EventBus } from './event-bus.js';

export interface EntityFields {
  readonly title: string;
  /** Markdown. */
  readonly body?: string;
}
export interface Entity {
  readonly entityType: string;
  readonly id: string;
  readonly title: string;
  readonly body: string;
}

/** Types and ids become addresses and file names, so they are made of nothing that could mean something there. */
const slug = /^[a-z0-9]+(?:-[a-z0-9]+)*$/;
/** A file name has 255 letters at most. An entity that no build can write would fail every build. */
const longestSlug = 100;

/**
 * The content of the site. Every change is stored first and published second: whoever hears of a change can already
 * read it. The rebuild relies on this order.
 */
export class EntityService {
  private readonly entities = new Map<string, Map<string, Entity>>();

  constructor(private readonly bus: EventBus) {}

  async createEntity(entityType: string, fields: EntityFields, id: string): Promise<Entity> {
    checkSlug('type', entityType);
    checkSlug('id', id);
    if (this.getEntity(entityType, id)) throw new Error(`There is a ${entityType} "${id}" already; use updateEntity`);
    return this.store('entity:created', { entityType, id, ...readFields(fields) });
  }

  async updateEntity(entityType: string, fields: Partial<EntityFields>, id: string): Promise<Entity> {
    const old = this.getEntity(entityType, id);
    if (!old) throw new Error(`There is no ${entityType} "${id}" to update`);
    return this.store('entity:updated', { entityType, id, ...readFields(fields, old) });
  }

  /** False if there was nothing to delete; then nothing is published either. */
  async deleteEntity(entityType: string, id: string): Promise<boolean> {
    const ofType = this.entities.get(entityType);
    if (!ofType?.delete(id)) return false;
    if (ofType.size === 0) this.entities.delete(entityType);
    await this.bus.publish('entity:deleted', { entityType, entityId: id });
    return true;
  }

  getEntity(entityType: string, id: string): Entity | undefined {
    return this.entities.get(entityType)?.get(id);
  }

  /** The types that have at least one entity now. */
  getEntityTypes(): readonly string[] {
    return [...this.entities.keys()];
  }

  async listEntities(entityType: string): Promise<readonly Entity[]> {
    return [...(this.entities.get(entityType)?.values() ?? [])];
  }

  private async store(event: EntityEvent, entity: Entity): Promise<Entity> {
    const ofType = this.entities.get(entity.entityType) ?? new Map<string, Entity>();
    this.entities.set(entity.entityType, ofType.set(entity.id, entity));
    await this.bus.publish(event, { entityType: entity.entityType, entityId: entity.id });
    return entity;
  }
}

function checkSlug(what: string, name: string): void {
  if (typeof name === 'string' && name.length <= longestSlug && slug.test(name)) return;
  const shown = String(name).slice(0, longestSlug);
  throw new TypeError(`Entity ${what} "${shown}" must be lower-case words and dashes, at most ${longestSlug} letters`);
}

/** The fields alone: what else comes with them, such as another id, is not stored. */
function readFields(fields: Partial<EntityFields>, old?: Entity): Required<EntityFields> {
  if (typeof fields !== 'object' || fields === null) throw new TypeError('The fields of an entity must be an object');
  const { title = old?.title, body = old?.body ?? '' } = fields;
  if (typeof title !== 'string') throw new TypeError('An entity needs a title, as text');
  if (typeof body !== 'string') throw new TypeError('The body of an entity must be text');
  return { title, body };
}
