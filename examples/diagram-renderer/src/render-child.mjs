// Renders one diagram: JSON on stdin, one line of JSON and the bytes on stdout. JavaScript, because it is started anew
// for every diagram and should not have to be translated each time.
import { text } from 'node:stream/consumers';
import { Worker } from 'node:worker_threads';
import { flattenSvg, png } from './svg.mjs';

// A second thread holds the lifeline, because the first may be busy for ever. The pipe ends when the server does,
// however it does.
new Worker(
  `const lifeline = new (require('node:net').Socket)({ fd: 3 });
   lifeline.on('close', () => process.kill(process.pid, 'SIGKILL')).on('error', () => {}).resume();`,
  { eval: true },
).unref();

/** Each loads its library first: that this fails is nobody's mistake but ours. */
const renderers = { graphviz, d2, mermaid };

async function graphviz() {
  const { instance } = await import('@viz-js/viz');
  const viz = await instance();
  return (source) => {
    const { status, output, errors } = viz.render(source, {
      format: 'svg',
      graphAttributes: { fontname: 'Inter' },
      nodeAttributes: { fontname: 'Inter' },
      edgeAttributes: { fontname: 'Inter' },
    });
    if (status === 'success') return output;
    throw new Error(errors.map(({ message }) => message).join('; '));
  };
}

async function d2() {
  const { D2 } = await import('@terrastruct/d2');
  const engine = new D2();
  return async (source) => {
    const { diagram, renderOptions } = await engine.compile(source).catch((error) => {
      throw new Error(d2Message(error));
    });
    return engine.render(diagram, { ...renderOptions, noXMLTag: true });
  };
}

/** D2 says what is wrong in a list of `{ range, errmsg }`. */
function d2Message(error) {
  try {
    return JSON.parse(error.message)
      .map(({ errmsg }) => errmsg.replace(/^index:/, 'line '))
      .join('; ');
  } catch {
    return error.message;
  }
}

async function mermaid() {
  const { renderMermaidSVG } = await import('beautiful-mermaid');
  return (source) => renderMermaidSVG(withoutHead(source), { font: 'Inter' });
}

/** The library looks for the kind of a diagram in the first line: front matter and comments go. */
function withoutHead(source) {
  return source
    .replace(/\r\n?/g, '\n')
    .replace(/^\s*---\n[\s\S]*?\n---\s*\n/, '')
    .replace(/^(?:\s*(?:%%.*)?\n)+/, '');
}

function answer(head, body = '') {
  process.stdout.write(`${JSON.stringify(head)}\n`);
  process.stdout.write(body);
}

let code = 'RENDER';
try {
  const { source, format, outputType } = JSON.parse(await text(process.stdin));
  const render = await renderers[format]();
  // From here on the same source would fail again, however often: the mistake is in it.
  code = 'SOURCE';
  const svg = flattenSvg(await render(source));
  const body = outputType === 'png' ? await png(svg) : Buffer.from(svg);
  answer({ bytes: body.length }, body);
} catch (error) {
  answer({ error: String(error?.message ?? error).slice(0, 4096), code });
}
