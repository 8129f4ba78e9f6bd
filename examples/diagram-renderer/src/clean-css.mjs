// What of a style sheet may stay: nothing that leads out of the picture. A list of what is allowed, so that what nobody
// thought of is not. What stands in strings is judged like everything else.

const functions = new Set(
  `var calc min max clamp rgb rgba hsl hsla color-mix drop-shadow blur translate translatex translatey rotate scale matrix
  skewx skewy cubic-bezier steps linear-gradient radial-gradient format`.split(/\s+/),
);
const selectors = new Set('not is where dir lang nth-child nth-last-child nth-of-type nth-last-of-type'.split(' '));
/** Within these are rules again. */
const nesting = /^@(?:media|keyframes|-webkit-keyframes)\b[^@]*$/i;
const fragment = /\burl\(\s*(["']?)#[^\s"'()<>\\]+\1\s*\)/gi;
const font = /\burl\(\s*(["']?)data:application\/font-woff2?;base64,[A-Za-z0-9+/=]+\1\s*\)/gi;

/** A style sheet without the rules and declarations that are not allowed. */
export function cleanCss(css) {
  return cleanRules(plain(css));
}

/** Without comments, and on one line: a string ends where it seems to. */
function plain(css) {
  return css
    .replace(/[\n\r\f]/g, ' ')
    .replace(/\/\*.*?\*\//g, ' ')
    .split('/*')[0];
}

/** The declarations of a style attribute. */
export function cleanDeclarations(css, isFont = false) {
  return split(plain(css), ';')
    .map((declaration) => /^\s*([\w-]+)\s*:([\s\S]*)$/.exec(declaration))
    .filter((found) => found !== null && isSafeValue(found[2], isFont))
    .map(([, name, value]) => `${name}:${value.trim()}`)
    .join(';');
}

/** A value, of a declaration or of an attribute. */
export function isSafeValue(value, isFont = false) {
  const rest = value.replace(fragment, ' ').replace(isFont ? font : fragment, ' ');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  if (/[\\@<>{};\u0000-\u0008\u000b\u000c\u000e-\u001f]|\/\*/.test(rest)) return false;
  return callsOnly(rest, functions);
}

function callsOnly(text, allowed) {
  const calls = [...text.matchAll(/([^\s(),:"'/]*)\(/g)];
  return calls.every(([, name]) => name === '' || allowed.has(name.toLowerCase()));
}

function cleanRules(css) {
  let result = '';
  let from = 0;
  for (let at = next(css, from, '{;}'); at < css.length; at = next(css, from, '{;}')) {
    const prelude = css.slice(from, at).trim();
    from = at + 1;
    // `@import …;` and whatever else ends so, and a bracket too many.
    if (css[at] !== '{') continue;
    const end = blockEnd(css, from);
    result += cleanRule(prelude, css.slice(from, end));
    from = end + 1;
  }
  return result;
}

function cleanRule(prelude, block) {
  if (prelude === '' || /[\\<]/.test(prelude) || !callsOnly(prelude, selectors)) return '';
  if (nesting.test(prelude)) return `${prelude}{${cleanRules(block)}}`;
  if (/^@font-face$/i.test(prelude)) return `${prelude}{${cleanDeclarations(block, true)}}`;
  if (prelude.includes('@')) return '';
  return `${prelude}{${cleanDeclarations(block)}}`;
}

/** Where one of these characters stands next, outside of strings and brackets. */
function next(css, from, characters) {
  let quote = null;
  let depth = 0;
  for (let at = from; at < css.length; at++) {
    const one = css[at];
    if (quote !== null) quote = one === quote ? null : quote;
    else if (one === '"' || one === "'") quote = one;
    else if (one === '(') depth += 1;
    else if (one === ')') depth = Math.max(0, depth - 1);
    else if (depth === 0 && characters.includes(one)) return at;
  }
  return css.length;
}

function blockEnd(css, from) {
  let depth = 1;
  let at = from;
  for (;;) {
    at = next(css, at, '{}');
    if (at >= css.length) return css.length;
    depth += css[at] === '{' ? 1 : -1;
    if (depth === 0) return at;
    at += 1;
  }
}

function split(css, by) {
  const parts = [];
  for (let from = 0; from <= css.length; ) {
    const at = next(css, from, by);
    parts.push(css.slice(from, at));
    from = at + 1;
  }
  return parts;
}
