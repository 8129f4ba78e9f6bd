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

/** Of Mermaid's kinds of diagrams those that the renderer draws, and those that it does not. */
const drawnMermaid = ['flowchart', 'graph', 'stateDiagram', 'sequenceDiagram', 'classDiagram', 'erDiagram', 'xychart'];
export const undrawnMermaid = [
  ...['pie', 'gantt', 'journey', 'gitGraph', 'mindmap', 'timeline', 'quadrantChart', 'requirementDiagram', 'zenuml'],
  ...['sankey', 'sankey-beta', 'block', 'block-beta', 'packet', 'packet-beta', 'kanban', 'architecture-beta'],
  ...['radar-beta', 'treemap', 'treemap-beta', 'info'],
  ...['C4Context', 'C4Container', 'C4Component', 'C4Dynamic', 'C4Deployment'],
];

/** What is wrong with the kind of a diagram that cannot be drawn; null: nothing. */
export function undrawnKind({ source, format }: Diagram): string | null {
  if (format !== 'mermaid') return null;
  const head = source
    .replace(/^\s*---\r?\n[\s\S]*?\n---\s*\n/, '')
    .split(/[\r\n]+/)
    .find((line) => line.trim() !== '' && !line.trim().startsWith('%%'));
  const word = /^\s*([\w-]+)/.exec(head ?? '')?.[1]?.toLowerCase();
  const kind = undrawnMermaid.find((one) => one.toLowerCase() === word);
  return kind === undefined ? null : `Mermaid's ${kind} is not drawn here; these are: ${drawnMermaid.join(', ')}`;
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
