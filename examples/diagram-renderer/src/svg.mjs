// From what the three renderers write to an SVG that shows the same everywhere, and to a PNG.
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { cleanSvg, writeSvg } from './clean-svg.mjs';

const family = 'Inter';
const pixelsMax = 8192;

/**
 * Makes an SVG that needs nothing from elsewhere: no web font, no picture by address (a viewer would fetch it, and the
 * PNG would be made with whatever file has that name here), no CSS variables (few programs know them).
 */
export function flattenSvg(svg) {
  return writeSvg(cleanSvg(svg.includes('var(--_') ? resolveVariables(svg) : svg));
}

/** With the bundled font, whatever fonts the machine has. What is drawn is clean, whoever made it. */
export async function png(svg) {
  const { Resvg } = await import('@resvg/resvg-js');
  const options = {
    background: 'white',
    font: { fontFiles: fontFiles(), loadSystemFonts: false, defaultFontFamily: family },
  };
  const drawable = writeSvg(drawableTree(cleanSvg(svg)));
  const { width, height } = new Resvg(drawable, options);
  const tooLarge = Math.max(width, height) > pixelsMax;
  const fitTo = { mode: width >= height ? 'width' : 'height', value: pixelsMax };
  return new Resvg(drawable, { ...options, ...(tooLarge && { fitTo }) }).render().asPng();
}

export function fontFiles() {
  const folder = dirname(createRequire(import.meta.url).resolve('@expo-google-fonts/inter/package.json'));
  return ['400Regular', '400Regular_Italic', '600SemiBold', '700Bold'].map((style) =>
    join(folder, style, `${family}_${style}.ttf`),
  );
}

/** The same tree, with what only browsers can show replaced by what any program can. */
function drawableTree(node) {
  if (typeof node === 'string') return node;
  if (node.name === 'style') return { ...node, children: node.children.map(bundledFonts) };
  const children = node.children.flatMap((child) =>
    child.name === 'foreignObject' ? textOfMarkdown(child) : [drawableTree(child)],
  );
  const attributes = node.attributes.map(([name, value]) => [name, name === 'style' ? bundledFonts(value) : value]);
  return { ...node, attributes, children };
}

/** D2 brings a font of its own for each style, which only browsers can read. */
function bundledFonts(css) {
  const styles = { regular: '', semibold: ';font-weight:600', bold: ';font-weight:700', italic: ';font-style:italic' };
  return css
    .replace(/@font-face\s*\{[^}]*\}/g, '')
    .replace(
      /font-family:\s*"?d2-\d+-font-(regular|semibold|bold|italic)"?/g,
      (_, style) => `font-family:${family}${styles[style]}`,
    );
}

/** Markdown in D2 is HTML inside the SVG, which only browsers can show: its text is drawn line by line instead. */
function textOfMarkdown({ attributes, children }) {
  const at = (name) => Number(attributes.find(([key]) => key === name)?.[1] ?? 0);
  const lines = children.flatMap((child) => linesOf(child));
  const step = Math.min(24, at('height') / Math.max(1, lines.length));
  return lines.map(({ text, bold }, index) => ({
    name: 'text',
    attributes: Object.entries({
      x: String(at('x')),
      y: String(at('y') + step * (index + 0.75)),
      'font-family': family,
      'font-size': String(Math.min(16, step * 0.8)),
      'font-weight': bold ? '700' : '400',
    }),
    children: [text],
  }));
}

const block = /^(?:h[1-6]|p|li|pre|td|th)$/;

/** The lines of each block, and then those of the blocks inside it. */
function linesOf(node) {
  if (typeof node === 'string') return [];
  const inner = node.children.flatMap((child) => linesOf(child));
  if (!block.test(node.name)) return inner;
  const own = textOf(node, false)
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => ({
      text: node.name === 'li' ? `• ${line.trim()}` : line.trimEnd(),
      bold: node.name.startsWith('h'),
    }));
  return [...own, ...inner];
}

function textOf(node, inside = true) {
  if (typeof node === 'string') return node;
  if (inside && (block.test(node.name) || ['ul', 'ol', 'table'].includes(node.name))) return '';
  return node.children.map((child) => textOf(child)).join('');
}

/** `var(--x)` and `color-mix(…)` become plain colours. */
function resolveVariables(svg) {
  const values = new Map(
    [...svg.matchAll(/(--[\w-]+)\s*:\s*([^;"}]+)[;"}]/g)].map(([, name, value]) => [name, value.trim()]),
  );
  const resolve = (text, depth = 0) =>
    depth > 20
      ? text
      : replaceCalls(text, 'var', (inside) => {
          const comma = inside.indexOf(',');
          const name = (comma < 0 ? inside : inside.slice(0, comma)).trim();
          const value = values.get(name) ?? (comma < 0 ? '' : inside.slice(comma + 1).trim());
          return resolve(value, depth + 1);
        });
  const declarations = /(<style>[\s\S]*?)\bsvg\s*\{[^}]*\}/;
  const flat = resolve(svg.replace(declarations, '$1'));
  return replaceCalls(flat, 'color-mix', mix);
}

/** Calls `by` with what stands between the brackets of each `name(…)`, brackets inside it included. */
function replaceCalls(text, name, by) {
  let result = '';
  let from = 0;
  for (let start = text.indexOf(`${name}(`); start >= 0; start = text.indexOf(`${name}(`, from)) {
    const open = start + name.length + 1;
    let end = open;
    for (let depth = 1; depth > 0 && end < text.length; end++) {
      if (text[end] === '(') depth++;
      else if (text[end] === ')') depth--;
    }
    result += text.slice(from, start) + by(text.slice(open, end - 1));
    from = end;
  }
  return result + text.slice(from);
}

/** `in srgb, #27272A 60%, #FFFFFF` */
function mix(inside) {
  const [, first, share, second] = /#([0-9a-f]{6})\s+([\d.]+)%\s*,\s*#([0-9a-f]{6})/i.exec(inside) ?? [];
  if (first === undefined) return 'currentColor';
  const channel = (hex, index) => Number.parseInt(hex.slice(index * 2, index * 2 + 2), 16);
  const part = Number(share) / 100;
  const mixed = [0, 1, 2].map((i) => Math.round(channel(first, i) * part + channel(second, i) * (1 - part)));
  return `#${mixed.map((value) => value.toString(16).padStart(2, '0')).join('')}`;
}
