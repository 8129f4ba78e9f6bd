import { deflateSync, crc32 } from 'node:zlib';
import { writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';
import { readConfig } from '../src/config.js';
import type { Format } from '../src/diagram.js';
import { createChildRenderer } from '../src/renderer.js';
import { flattenSvg, png } from '../src/svg.mjs';
import { temporaryFolder } from './support.js';

const spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"';
const size = 'width="20" height="20"';
const svgOf = (inside: string): string => `<svg ${spaces} ${size}>${inside}</svg>`;
const html = (inside: string): string =>
  `<foreignObject ${size}><div xmlns="http://www.w3.org/1999/xhtml">${inside}</div></foreignObject>`;
const image = (attributes: string): string => `<image ${size} ${attributes}/>`;
const nested = Buffer.from(svgOf(image('href="SECRET"'))).toString('base64');

/** SECRET stands for the path of a picture on this machine. */
const hostile: { readonly [what: string]: string } = {
  'a path': svgOf(image('href="SECRET"')),
  'a path by xlink': svgOf(image('xlink:href="SECRET"')),
  'another prefix for xlink': svgOf(image('xmlns:l="http://www.w3.org/1999/xlink" l:href="SECRET"')),
  'a file address': svgOf(image('href="file://SECRET"')),
  'a file address in mixed case': svgOf(image('href="FiLe://SECRET"')),
  'a relative path': svgOf(image('href="RELATIVE/secret.png"')),
  'a Windows path': svgOf(image('href="C:\\Users\\secret.png"')),
  'a network share': svgOf(image('href="\\\\host\\secret.png"')),
  'an address of the web': svgOf(image('href="http://127.0.0.1:9/secret.png"')),
  'an address without a scheme': svgOf(image('href="//127.0.0.1:9/secret.png"')),
  'a device': svgOf(image('href="/dev/zero"')),
  'a decoy attribute before': svgOf(image('data-href="data:image/png;base64,AAAA" href="SECRET"')),
  'a decoy in another attribute': svgOf(image(`id=' href="data:image/png;base64,AAAA"' href="SECRET"`)),
  'both hrefs, one harmless': svgOf(image('href="data:image/png;base64,AAAA" xlink:href="SECRET"')),
  'single quotes': svgOf(image("href='SECRET'")),
  'character references': svgOf(image('href="&#47;SECRET"')),
  'an element over two lines': svgOf(`<image\n${size}\nhref\n=\n"SECRET"\n/>`),
  'an element that is not empty': svgOf(`<image ${size} href="SECRET"><title>x</title></image>`),
  'an end tag with a blank': svgOf(`<image ${size} href="SECRET"></image >`),
  'a prefix for SVG': svgOf(`<s:image xmlns:s="http://www.w3.org/2000/svg" ${size} href="SECRET"/>`),
  'a comment before the name': svgOf(`<!-- <image> -->${image('href="SECRET"')}`),
  'a comment that looks like an end': svgOf(html(`<!-- </foreignObject> --><p>x</p>`) + image('href="SECRET"')),
  'a foreignObject that a comment hides': svgOf(
    `<foreignObject><!--</foreignObject>-->${image('href="SECRET"')}</foreignObject>`,
  ),
  'CDATA that looks like an end': svgOf(html(`<![CDATA[</foreignObject>]]>`) + image('href="SECRET"')),
  'an image inside of HTML': svgOf(html(`<img src="SECRET"/>`)),
  'a frame inside of HTML': svgOf(html(`<iframe src="SECRET"></iframe><object data="SECRET"/><embed src="SECRET"/>`)),
  'SVG inside of HTML': svgOf(html(`<svg xmlns="http://www.w3.org/2000/svg">${image('href="SECRET"')}</svg>`)),
  'a link': svgOf(`<a href="javascript:secret()"><text>x</text></a>`),
  'a link inside of HTML': svgOf(html(`<a href="http://secret.example">x</a>`)),
  'a script': svgOf('<script>secret()</script>'),
  'a script with a prefix': svgOf('<s:script xmlns:s="http://www.w3.org/2000/svg">secret()</s:script>'),
  'a script by address': svgOf('<script href="SECRET"/>'),
  'a script inside of HTML': svgOf(html('<script>secret()</script>')),
  'a script inside of a title': svgOf('<title><script>secret()</script></title>'),
  'an event handler': svgOf('<rect onclick="secret()" width="1" height="1"/>'),
  'an event handler of the root': `<svg ${spaces} ${size} onload="secret()"/>`,
  'an event handler in mixed case': svgOf('<rect OnClick="secret()" width="1" height="1"/>'),
  'an external use': svgOf('<use href="SECRET#x"/><use xlink:href="SECRET#x"/>'),
  'an external gradient': svgOf('<linearGradient id="a" href="SECRET#x"/>'),
  'an external fill': svgOf('<rect fill="url(SECRET#x)" width="1" height="1"/>'),
  'an external filter with quotes': svgOf(`<rect filter="url('SECRET#x')" width="1" height="1"/>`),
  'a filter image': svgOf(
    '<filter id="f"><feImage href="SECRET"/></filter><rect filter="url(#f)" width="20" height="20"/>',
  ),
  'an animated href': svgOf(
    `<image ${size} href="data:image/png;base64,AAAA"><set attributeName="href" to="SECRET"/></image>`,
  ),
  'an animated link': svgOf('<a><animate attributeName="href" values="javascript:secret()"/><text>x</text></a>'),
  'a style attribute': svgOf('<rect style="fill:url(SECRET)" width="1" height="1"/>'),
  'a style attribute with an escape': svgOf('<rect style="fill:\\75rl(SECRET)" width="1" height="1"/>'),
  'a style attribute with a comment': svgOf(
    '<rect style="fill:ur/**/l(SECRET);filter:url(/*#*/SECRET)" width="1" height="1"/>',
  ),
  'an import': svgOf('<style>@import "SECRET";</style>'),
  'an import by url in mixed case': svgOf('<style>@ImPoRt URL(SECRET) screen;</style>'),
  'an import with an escape': svgOf('<style>@\\69mport "SECRET";</style>'),
  'an import in CDATA': svgOf('<style><![CDATA[@import "SECRET";]]></style>'),
  'an import split by CDATA': svgOf('<style>@im<![CDATA[port "SECRET";]]></style>'),
  'an import behind a comment': svgOf('<style>/* { */@import "SECRET";/* } */</style>'),
  'an import behind an open string': svgOf('<style>a{content:"\n}@import "SECRET";b{content:"}</style>'),
  'a selector that becomes a value': svgOf('<style>x{a:"1\n2"} fill:url(SECRET) \n {}</style>'),
  'an image set': svgOf('<style>rect{background:image-set("SECRET" 1x)}</style>'),
  'an image set of one vendor': svgOf('<style>rect{background:-webkit-image-set("SECRET" 1x)}</style>'),
  'a cursor': svgOf('<style>rect{cursor:url(SECRET),auto}</style>'),
  'a font by address': svgOf('<style>@font-face{font-family:x;src:url(SECRET)}</style>'),
  'a font inside of a media rule': svgOf('<style>@media all{@font-face{font-family:x;src:url("SECRET")}}</style>'),
  'a namespace rule': svgOf('<style>@namespace url(SECRET);</style>'),
  'a value with a capital': svgOf('<style>rect{fill:URL(SECRET)}</style>'),
  'a style with another type': svgOf('<style type="text/css">rect{fill:url(SECRET)}</style>'),
  'HTML as data': svgOf(image('href="data:text/html,secret"')),
  'an SVG as data': svgOf(image(`href="data:image/svg+xml;base64,${nested}"`)),
  'an SVG as data, another way': svgOf(image('href="data:image/svg+xml,%3Csvg%3Esecret%3C/svg%3E"')),
  'a type that begins well': svgOf(image('href="data:image/png,secret"')),
  'a base': `<svg ${spaces} ${size} xml:base="SECRET">${image('href="#x"')}</svg>`,
  'a style sheet instruction': `<?xml-stylesheet href="SECRET"?>${svgOf('')}`,
  'an instruction inside': svgOf('<?php secret() ?>'),
  'an entity': `<!DOCTYPE svg [<!ENTITY x SYSTEM "file://SECRET">]>${svgOf('<text>&x;</text>')}`,
  'an entity in a value': `<!DOCTYPE svg [<!ENTITY x "SECRET">]>${svgOf(image('href="&x;"'))}`,
  'an entity that grows': `<!DOCTYPE svg [<!ENTITY a "secret"><!ENTITY b "&a;&a;&a;">]>${svgOf('<text>&b;</text>')}`,
  'a declaration by address': `<!DOCTYPE svg SYSTEM "SECRET">${svgOf('')}`,
  'an include': svgOf('<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="SECRET"/>'),
  'another root': `<html xmlns="http://www.w3.org/1999/xhtml"><img src="SECRET"/></html>`,
  'no namespace': '<svg><image href="SECRET"/></svg>',
  'a second root': `${svgOf('')}<script>secret()</script>`,
  depth: `${svgOf('').slice(0, -6)}${'<g>'.repeat(100_000)}secret`,
};

test('there are many hostile pictures', () => expect(Object.keys(hostile).length).toBeGreaterThanOrEqual(60));

/** A picture of 20 by 20 red pixels, in a file. */
async function secretPicture(): Promise<string> {
  const chunk = (type: string, data: Buffer): Buffer => {
    const body = Buffer.concat([Buffer.from(type), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const row = Buffer.from([0, ...Array.from({ length: 20 }, () => [255, 0, 0]).flat()]);
  const head = Buffer.from([0, 0, 0, 20, 0, 0, 0, 20, 8, 2, 0, 0, 0]);
  const pixels = deflateSync(Buffer.concat(Array.from({ length: 20 }, () => row)));
  const path = join(await temporaryFolder(), 'secret.png');
  const signature = Buffer.from('89504e470d0a1a0a', 'hex');
  const chunks = [chunk('IHDR', head), chunk('IDAT', pixels), chunk('IEND', Buffer.alloc(0))];
  await writeFile(path, Buffer.concat([signature, ...chunks]));
  return path;
}

/** Whether a pixel of the secret is in it, at its own size. */
const red = async (bytes: Uint8Array): Promise<boolean> => {
  const { Resvg } = await import('@resvg/resvg-js');
  const [width, height] = [16, 20].map((at) => Buffer.from(bytes).readUInt32BE(at));
  const href = `data:image/png;base64,${Buffer.from(bytes).toString('base64')}`;
  const picture = `<image width="${width}" height="${height}" href="${href}"/>`;
  const { pixels } = new Resvg(`<svg ${spaces} width="${width}" height="${height}">${picture}</svg>`).render();
  for (let at = 0; at < pixels.length; at += 4)
    if (pixels[at]! > 250 && pixels[at + 1]! < 5 && pixels[at + 2]! < 5) return true;
  return false;
};

for (const [what, template] of Object.entries(hostile))
  test(`nothing comes of ${what}`, async () => {
    const path = await secretPicture();
    const svg = template
      .replaceAll('SECRET', path)
      .replaceAll('RELATIVE', relative(process.cwd(), path).replace('/secret.png', ''));
    let cleaned: string;
    try {
      cleaned = flattenSvg(svg);
    } catch (error) {
      expect(String(error)).toMatch(/^Error: The picture is not a plain SVG: /);
      await expect(png(svg)).rejects.toThrow('The picture is not a plain SVG');
      return;
    }
    // Of text inside of the picture nothing is asked: in an attribute or an element it would do something.
    expect(cleaned.replace(/ (?:id|data-href)="[^"]*"/g, '')).not.toMatch(
      /secret|lastout-diagrams|\/dev\/zero|script|\bon\w+=|@import|<!|<\?/i,
    );
    // What is clean stays as it is.
    expect(flattenSvg(cleaned)).toBe(cleaned);
    const drawn = await png(svg);
    expect(await red(drawn)).toBe(false);
  });

test('the picture that is the secret would be seen', async () => {
  const { Resvg } = await import('@resvg/resvg-js');
  const drawn = new Resvg(svgOf(image(`href="${await secretPicture()}"`))).render().asPng();
  expect(await red(drawn)).toBe(true);
});

test('what is inside of the picture stays: pictures as data, fragments, fonts as data, styles, HTML of Markdown', () => {
  const legitimate = [
    image('href="data:image/png;base64,AAAA"'),
    '<linearGradient id="a" href="#b"/><rect fill="url(#a)" mask="url(#m)" style="filter:url(#f);fill:#fff"/>',
    '<style>@font-face{font-family:x;src:url(&quot;data:application/font-woff;base64,AAAA&quot;)}</style>',
    '<style>@media screen and (prefers-color-scheme:dark){.a &gt; b:not([c]){fill:rgba(0, 0, 0, 0.1)}}</style>',
    '<style>@keyframes x{from{opacity:0}to{stroke-dashoffset:-17px}}</style>',
    '<text x="1" class="a b" xml:space="preserve">1 &lt; 2 &amp;&amp; url(x) @import</text>',
    '<foreignObject width="1"><div xmlns="http://www.w3.org/1999/xhtml" class="md"><h1>x</h1><br/></div></foreignObject>',
  ];
  for (const one of legitimate) {
    const svg = `<svg xmlns="http://www.w3.org/2000/svg">${one}</svg>`;
    expect(flattenSvg(svg)).toBe(svg);
  }
});

const attacks: [format: Format, source: string][] = [
  ['d2', 'a: "" { icon: SECRET; shape: image }'],
  ['d2', 'a: { icon: file://SECRET }'],
  ['d2', 'a: |md\n  <!-- </foreignObject> -->\n  <img src="SECRET"/>\n|'],
  ['d2', 'a: |md\n  ![x](SECRET)\n|'],
  ['d2', 'a: { link: "javascript:secret()"; tooltip: "<script>secret()</script>" }'],
  ['graphviz', 'digraph { a [image="SECRET" label=""] b [URL="javascript:secret()"] }'],
  ['graphviz', 'digraph { stylesheet="SECRET" a [label=<<table><tr><td><img src="SECRET"/></td></tr></table>>] }'],
  ['mermaid', 'graph TD\n  A["<img src=SECRET onerror=secret()>"] --> B\n  click A "javascript:secret()"'],
  ['mermaid', 'graph TD\n  A --> B\n  style A fill:url(SECRET)'],
  ['mermaid', 'graph TD\n  A --> B\n  style A fill:#fff"/><image href="SECRET" width="500" height="500"/><rect x="'],
];

for (const [format, source] of attacks)
  test(`no file and no script by ${format}: ${JSON.stringify(source)}`, async () => {
    const renderer = createChildRenderer(readConfig({}));
    const path = await secretPicture();
    const text = source.replaceAll('SECRET', path);
    const rendered = await renderer.render(text, format, 'svg', new AbortController().signal).catch(() => null);
    if (rendered === null) return;
    // The label may well be shown: it is text, between elements.
    const svg = Buffer.from(rendered)
      .toString()
      .replace(/>[^<]*</g, '><')
      .replace(/ (?:id|class|data-[\w-]+)="[^"]*"/g, '');
    expect(svg).not.toMatch(/secret|script|<!|<\?|<image/i);
    const drawn = await renderer.render(text, format, 'png', new AbortController().signal);
    expect(await red(drawn)).toBe(false);
  }, 60_000);
