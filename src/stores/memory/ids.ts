/**
 * Rows by id. The ids that the library makes grow with time: their rows stand in order, most come at the end, and nothing
 * need be looked for to see that such an id is new. Ids that were given are as they are, and stand in a map.
 */
import type { Row } from '../local/tables.js';
import { Blocks } from './blocks.js';

type Named = Pick<Row, 'id'>;

export class RowsById {
  readonly #made = new Blocks<Named, Row>((a, b) => a.id < b.id);
  readonly #given = new Map<string, Row>();
  #highest = '';
  #anyGiven = false;

  get size(): number {
    return this.#made.size + this.#given.size;
  }

  /** False: no row has or had this id. */
  mayBeKnown(id: string): boolean {
    return id <= this.#highest || this.#anyGiven;
  }

  get(id: string): Row | undefined {
    const made = id <= this.#highest ? this.#made.from({ id }) : undefined;
    return made?.id === id ? made : this.#given.get(id);
  }

  add(row: Row): void {
    if (row.print === null) {
      this.#made.add(row);
      if (row.id > this.#highest) this.#highest = row.id;
    } else {
      this.#given.set(row.id, row);
      this.#anyGiven = true;
    }
  }

  remove(row: Row): void {
    if (row.print === null) this.#made.remove(row);
    else this.#given.delete(row.id);
  }
}
