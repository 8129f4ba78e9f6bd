/** The columns of a job in Lua, from the table of columns. A row has them under their own names, its shape has what is common. */
import { askedColumns, headColumns, keptRare, retriedColumns, storedNames } from '../../../core/columns.js';

const ofShape = new Set<string>(headColumns('redis').map(({ name }) => name));
/** What few rows have; a shape may have it too. */
export const rareNames: readonly string[] = keptRare.map(({ name }) => name).filter((name) => !ofShape.has(name));
export const retriedNames = retriedColumns.map(({ name }) => name).filter((name) => rareNames.includes(name));

/** What is shown of a row besides its shape, in this order. */
export const viewNames = storedNames.filter((name) => !ofShape.has(name));

/** `a = from.a, b = from.b` */
export const copied = (names: readonly string[], from: string): string =>
  names.map((name) => `${name} = ${from}.${name}`).join(', ');

/** What a filter asks of a row. */
export const askedChecks = askedColumns
  .map(({ name, column, fails }) => {
    const field = `${ofShape.has(column) ? 'about' : 'row'}.${column}`;
    return `  if filter.${name} and ${fails(field, `filter.${name}`)} then return false end\n`;
  })
  .join('');
