import { createHash } from 'node:crypto';

export const formats = ['graphviz', 'd2', 'mermaid'] as const;
export type Format = (typeof formats)[number];

/** What can come out, and what it is served as. */
export const contentTypes = { svg: 'image/svg+xml', png: 'image/png' } as const;
export type OutputType = keyof typeof contentTypes;

export interface Diagram {
  readonly source: string;
  readonly format: Format;
  readonly outputType: OutputType;
}

/** Reads a request's body; a string says what is wrong with it. */
export function readDiagram(body: unknown): Diagram | string {
  if (body === null || typeof body !== 'object' || Array.isArray(body)) return 'the body must be a JSON object';
  const { source, format, outputType = 'svg' } = body as { [name: string]: unknown };
  if (typeof source !== 'string' || source.trim() === '') return 'source must be a non-empty string';
  if (!formats.includes(format as Format)) return `format must be one of ${formats.join(', ')}`;
  if (!Object.hasOwn(contentTypes, outputType as PropertyKey))
    return `outputType must be one of ${Object.keys(contentTypes).join(', ')}`;
  return { source, format: format as Format, outputType: outputType as OutputType };
}

/** Same input, same hash: how the text was indented at its ends or broken into lines by an editor plays no role. */
export function inputHash({ source, format, outputType }: Diagram): string {
  const normalised = source
    .split(/\r\n?|\n/)
    .map((line) => line.trimEnd())
    .join('\n')
    .trim();
  return createHash('sha256')
    .update(JSON.stringify([normalised, format, outputType]))
    .digest('hex');
}
