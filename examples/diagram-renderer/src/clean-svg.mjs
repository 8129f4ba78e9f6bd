// Reads an SVG with a real parser and keeps what is on a list: elements and attributes that draw. Nothing that runs, and
// no reference that leads out of the picture, to a file or to the network. What is written is made from the tree alone.
import { SaxesParser } from 'saxes';
import { cleanCss, cleanDeclarations, isSafeValue } from './clean-css.mjs';

const svgSpace = 'http://www.w3.org/2000/svg';
const htmlSpace = 'http://www.w3.org/1999/xhtml';
const xmlSpace = 'http://www.w3.org/XML/1998/namespace';
const depthMax = 256;

const words = (text) => new Set(text.split(/\s+/));

const svgElements = words(
  `svg g defs style title desc a text tspan rect circle ellipse line polyline polygon path image marker mask clipPath
  pattern linearGradient radialGradient stop filter feGaussianBlur feFlood feComposite feOffset feBlend feMerge
  feMergeNode feColorMatrix feDropShadow foreignObject`,
);
/** Markdown in D2. */
const htmlElements = words(
  `div span p h1 h2 h3 h4 h5 h6 ul ol li dl dt dd em strong b i u s del ins mark code pre br hr sup sub blockquote table
  thead tbody tr td th a`,
);
/** Nobody interprets these: they may say anything. */
const plainAttributes = words('id class role title dir lang align');
const attributes = words(
  `x y x1 y1 x2 y2 cx cy r rx ry fx fy dx dy width height d points transform viewBox preserveAspectRatio fill fill-rule
  fill-opacity stroke stroke-width stroke-linecap stroke-linejoin stroke-miterlimit stroke-dasharray stroke-dashoffset
  stroke-opacity opacity color display visibility overflow mask mask-type maskUnits maskContentUnits clip-path clip-rule
  clipPathUnits filter filterUnits primitiveUnits marker-start marker-mid marker-end markerWidth markerHeight markerUnits
  refX refY orient patternUnits patternContentUnits patternTransform gradientUnits gradientTransform spreadMethod offset
  stop-color stop-opacity flood-color flood-opacity stdDeviation in in2 result operator k1 k2 k3 k4 mode values type
  font-family font-size font-weight font-style text-anchor text-decoration text-rendering dominant-baseline
  alignment-baseline baseline-shift letter-spacing word-spacing textLength lengthAdjust rotate paint-order vector-effect
  shape-rendering color-interpolation-filters mix-blend-mode focusable colspan rowspan start`,
);
const picture = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+$/;
const fragment = /^#[^\s"'()<>\\]+$/;
const mayRefer = words('linearGradient radialGradient pattern');

/** The tree of what may stay. Throws for what is no well-formed SVG; an entity of a DOCTYPE is none that is known. */
export function cleanSvg(svg) {
  const top = { name: '', attributes: [], children: [] };
  const path = [top];
  /** How deep inside of something that was left out. */
  let outside = 0;
  const parser = new SaxesParser({ xmlns: true });
  const refuse = (why) => {
    throw new Error(`The picture is not a plain SVG: ${why}`);
  };
  parser.on('error', ({ message }) => refuse(message));
  parser.on('opentag', (tag) => {
    if (path.length + outside > depthMax) refuse(`it is deeper than ${depthMax} elements`);
    const parent = path.at(-1);
    if (outside > 0 || !isAllowed(tag, parent)) outside += 1;
    else {
      const element = { name: tag.local, attributes: attributesOf(tag), children: [], isHtml: tag.uri === htmlSpace };
      parent.children.push(element);
      path.push(element);
    }
  });
  parser.on('closetag', () => {
    if (outside > 0) outside -= 1;
    else closeElement(path.pop());
  });
  const text = (content) => outside === 0 && path.length > 1 && path.at(-1).children.push(content);
  parser.on('text', text);
  parser.on('cdata', text);
  parser.write(svg).close();
  return top.children[0] ?? refuse('it has no svg element');
}

function isAllowed({ uri, local, attributes: given }, parent) {
  if (parent.name === '') return uri === svgSpace && local === 'svg';
  if (parent.name === 'style') return false;
  if (parent.isHtml || parent.name === 'foreignObject') return uri === htmlSpace && htmlElements.has(local);
  if (uri !== svgSpace || !svgElements.has(local)) return false;
  return local !== 'image' || hrefOf(given, picture) !== null;
}

/** The same rule for `href` and `xlink:href`; both must keep it, as programs differ in which one counts. */
function hrefOf(given, pattern) {
  const values = Object.values(given).filter(({ local }) => local === 'href');
  return values.length > 0 && values.every(({ value }) => pattern.test(value)) ? values[0].value : null;
}

function attributesOf({ uri, local, attributes: given }) {
  const kept = [];
  for (const { uri: space, local: name, value } of Object.values(given)) {
    if (space === xmlSpace && name === 'space') kept.push(['xml:space', value]);
    if (space !== '') continue;
    if (name === 'style') kept.push([name, cleanDeclarations(value)]);
    else if (plainAttributes.has(name) || /^(?:data|aria)-[\w-]+$/.test(name)) kept.push([name, value]);
    else if (attributes.has(name) && isSafeValue(value)) kept.push([name, value]);
  }
  const pattern = local === 'image' ? picture : mayRefer.has(local) ? fragment : null;
  const href = uri === svgSpace && pattern ? hrefOf(given, pattern) : null;
  if (href !== null) kept.push(['href', href]);
  return kept;
}

function closeElement(element) {
  if (element.name === 'style') element.children = [cleanCss(element.children.join(''))];
}

const escapes = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const escape = (text) => text.replace(/[&<>"]/g, (one) => escapes[one]);

/** The text of a tree. */
export function writeSvg(root) {
  return write(root, ` xmlns="${svgSpace}"`);
}

function write(node, declared) {
  if (typeof node === 'string') return escape(node);
  const { name, attributes: kept, children, isHtml } = node;
  const given = kept.map(([key, value]) => ` ${key}="${escape(value)}"`).join('');
  const inside = children.map((child) => write(child, spaceOf(child, isHtml))).join('');
  return inside === '' && (!isHtml || ['br', 'hr'].includes(name))
    ? `<${name}${declared}${given}/>`
    : `<${name}${declared}${given}>${inside}</${name}>`;
}

function spaceOf(child, parentIsHtml) {
  return child.isHtml && !parentIsHtml ? ` xmlns="${htmlSpace}"` : '';
}
