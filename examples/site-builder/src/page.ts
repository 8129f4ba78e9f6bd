import { Marked } from 'marked';
import type { Route } from './route-registry.js';

/** Everything that a template may show. */
export interface PageView {
  readonly route: Route;
  readonly navigation: readonly { readonly path: string; readonly title: string }[];
  readonly revision: number;
}

/** Addresses that cannot carry a script; an entity in them (`javascript&colon;`) is refused with the rest. */
const harmless = /^(?:https?:\/\/|mailto:|[\w/.#?-][\w/.#?=%~+-]*$)/i;

// Content comes from whoever may edit entities: raw HTML is shown as text, and links lead to addresses only.
const markdown = new Marked({
  async: false,
  renderer: {
    html: ({ text }) => escapeHtml(text),
    link({ href, tokens }) {
      return harmless.test(href) ? false : this.parser.parseInline(tokens);
    },
    image: ({ href, text }) => (harmless.test(href) ? false : escapeHtml(text)),
  },
});

export function renderPage({ route, navigation, revision }: PageView): string {
  const link = ({ path, title }: { path: string; title: string }): string =>
    `<a href="${escapeHtml(path)}"${path === route.path ? ' aria-current="page"' : ''}>${escapeHtml(title)}</a>`;
  const list = route.links ? `<ul>${route.links.map((to) => `<li>${link(to)}</li>`).join('')}</ul>` : '';
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(route.title)}</title>
<style>${style}</style>
</head>
<body>
<nav>${navigation.map(link).join('')}</nav>
<main>
<h1>${escapeHtml(route.title)}</h1>
${toHtml(route.body)}${list}
</main>
<footer>Build ${revision}</footer>
</body>
</html>
`;
}

/** Markdown nested too deep for its parser is shown as it is: one entity must not fail the build of all others. */
function toHtml(body: string): string {
  try {
    return markdown.parse(body, { async: false });
  } catch {
    return `<pre>${escapeHtml(body)}</pre>`;
  }
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

const style = `
:root { color-scheme: light dark; --ink: light-dark(#1d2430, #e4e8ef); --soft: light-dark(#5b6678, #9aa6b8); --line: light-dark(#dde2ea, #313a48); --go: light-dark(#0b63c5, #7db7ff) }
body { margin: 0 auto; max-width: 42rem; padding: 1.5rem; color: var(--ink); background: light-dark(#fcfcfd, #12161d); font: 1.05rem/1.65 system-ui, sans-serif }
nav { display: flex; flex-wrap: wrap; gap: 1.25rem; padding-bottom: .75rem; border-bottom: 1px solid var(--line) }
a { color: var(--go); text-decoration: none } a:hover { text-decoration: underline } a[aria-current] { color: inherit; font-weight: 600 }
h1 { font-size: 2rem; line-height: 1.2 } pre { overflow-x: auto; padding: 1rem; border: 1px solid var(--line); border-radius: .5rem; font-size: .9rem }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem }
`;
