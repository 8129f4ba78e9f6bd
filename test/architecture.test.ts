// Holds the layer table, the size limits and the one home of clock and chance against every file in src,
// and shows first that the checker does see each kind of violation.
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { describe, expect, it } from 'vitest';
import { layers, type SourceFile, violations } from './architecture/rules.js';

const root = join(import.meta.dirname, '..');

describe('architecture: src', () => {
  const files: SourceFile[] = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(root, 'src', name))
    .map((path) => ({ path: relative(root, path).split(sep).join('/'), text: readFileSync(path, 'utf8') }));

  it('holds files to check', () => {
    expect(files.length).toBeGreaterThan(0);
  });

  it('keeps every rule', () => {
    expect(violations(files)).toEqual([]);
  });
});

describe('architecture: the checker sees', () => {
  const check = (path: string, text: string): string[] => violations([{ path, text }]);
  const lines = (count: number): string => 'void 0;\n'.repeat(count);

  it.each([
    [
      'core importing a layer',
      'src/core/job.ts',
      "import { x } from '../queue/enqueue.js';",
      'core must not import queue',
    ],
    ['core importing a built-in', 'src/core/job.ts', "import fs from 'node:fs';", 'core must not import node:fs'],
    ['core importing a package', 'src/core/job.ts', "import { z } from 'zod';", 'core must not import zod'],
    ['a type-only import', 'src/core/job.ts', "import type { X } from '../queue/x.js';", 'core must not import queue'],
    ['an import type', 'src/core/job.ts', "type X = import('../queue/x.js').X;", 'core must not import queue'],
    ['a re-export', 'src/core/job.ts', "export * from '../queue/x.js';", 'core must not import queue'],
    ['a dynamic import', 'src/core/job.ts', "await import('../queue/x.js');", 'core must not import queue'],
    ['a require', 'src/worker/run.ts', "require('node:fs');", 'worker must not import node:fs'],
    [
      'a built-in asked of the process',
      'src/worker/run.ts',
      "process.getBuiltinModule?.('node:fs');",
      'worker must not import node:fs',
    ],
    ['a computed import', 'src/worker/run.ts', 'await import(name);', 'computed name'],
    [
      'queue importing worker',
      'src/queue/a.ts',
      "import { x } from '../worker/run.js';",
      'queue must not import worker',
    ],
    [
      'worker importing lifecycle',
      'src/worker/a.ts',
      "import { x } from '../lifecycle/sweep.js';",
      'worker must not import lifecycle',
    ],
    [
      'lifecycle importing a store',
      'src/lifecycle/a.ts',
      "import '../stores/memory/store.js';",
      'lifecycle must not import stores/memory',
    ],
    [
      'local importing a store',
      'src/stores/local/a.ts',
      "import '../sqlite/store.js';",
      'stores/local must not import stores/sqlite',
    ],
    [
      'memory importing sqlite',
      'src/stores/memory/a.ts',
      "import '../sqlite/store.js';",
      'stores/memory must not import stores/sqlite',
    ],
    [
      'sqlite importing memory',
      'src/stores/sqlite/a.ts',
      "import '../memory/store.js';",
      'stores/sqlite must not import stores/memory',
    ],
    [
      'memory importing a built-in',
      'src/stores/memory/a.ts',
      "import 'node:fs';",
      'stores/memory must not import node:fs',
    ],
    ['testing importing worker', 'src/testing/a.ts', "import '../worker/run.js';", 'testing must not import worker'],
    ['a layer importing the system', 'src/worker/a.ts', "import '../system.js';", 'worker must not import system.ts'],
    ['the system importing a layer', 'src/system.ts', "import './worker/run.js';", 'system.ts must not import worker'],
    ['a way out of src', 'src/core/a.ts', "import '../../test/x.js';", 'core must not import test/x.js'],
    ['a folder without a row', 'src/extras/a.ts', '', 'no row of the layer table'],
    ['Date.now', 'src/core/a.ts', 'Date.now();', 'uses Date.now'],
    ['a hidden Date.now', 'src/core/a.ts', "globalThis.Date['now']();", 'uses Date.now'],
    ['new Date()', 'src/core/a.ts', 'new Date();', 'uses new Date()'],
    ['Date()', 'src/core/a.ts', 'Date();', 'uses Date()'],
    ['setTimeout', 'src/worker/a.ts', 'setTimeout(f, 1);', 'uses setTimeout'],
    ['setTimeout handed on', 'src/worker/a.ts', 'const wait = setTimeout; ', 'uses setTimeout'],
    ['a global setInterval', 'src/worker/a.ts', 'globalThis.setInterval(f, 1);', 'uses globalThis.setInterval'],
    ['setImmediate', 'src/worker/a.ts', 'setImmediate(f);', 'uses setImmediate'],
    ['a timeout signal', 'src/worker/a.ts', 'AbortSignal.timeout(5);', 'uses AbortSignal.timeout'],
    ['Math.random', 'src/core/a.ts', 'Math.random();', 'uses Math.random'],
    ['performance.now', 'src/core/a.ts', 'performance.now();', 'uses performance.now'],
    ['crypto.randomUUID', 'src/queue/a.ts', 'crypto.randomUUID();', 'uses randomUUID'],
    [
      'an imported randomBytes',
      'src/stores/sqlite/a.ts',
      "import { randomBytes } from 'node:crypto';",
      'uses randomBytes',
    ],
    ['a long file', 'src/core/a.ts', lines(401), '401 lines'],
    ['a long function', 'src/core/a.ts', `function f() {\n${lines(69)}}`, 'f has 71 lines'],
    [
      'a long function in SQL',
      'src/stores/postgres/sql/a.ts',
      `const a = (s) => \`\ncreate function \${s}.f() returns void language sql as $$\n${lines(69)}$$;\n\`;`,
      'f has 71 lines',
    ],
    ['a long method', 'src/core/a.ts', `class A { m() {\n${lines(69)}} }`, 'm has 71 lines'],
    ['a long arrow function', 'src/core/a.ts', `const f = () => {\n${lines(69)}};`, 'f has 71 lines'],
    [
      'a long body around a callback',
      'src/core/a.ts',
      `function f() {\n${lines(34)}g(() => {\n1;\n});\n${lines(34)}}`,
      'f has 71',
    ],
    ['a file called utils', 'src/core/utils.ts', '', '"utils.ts" is a name'],
    ['a file called job-manager', 'src/core/job-manager.ts', '', '"job-manager.ts" is a name'],
    ['a folder called common', 'src/core/common/a.ts', '', '"common" is a name'],
  ])('%s', (_what, path, text, message) => {
    const found = check(path, text);
    expect(found).toHaveLength(1);
    expect(found[0]).toContain(message);
  });

  it.each(['utils', 'helpers', 'common', 'manager', 'service', 'base', 'impl', 'misc'])('a file called %s', (name) => {
    expect(check(`src/core/${name}.ts`, '')).toHaveLength(1);
  });
});

describe('architecture: the checker allows', () => {
  const check = (path: string, text: string): string[] => violations([{ path, text }]);

  it.each([
    ['a layer to import itself and core', 'src/worker/a.ts', "import './b.js'; import '../core/job.js';"],
    [
      'SQLite its drivers',
      'src/stores/sqlite/a.ts',
      "await import('node:sqlite'); await import('@photostructure/sqlite');",
    ],
    [
      'the wiring to import all',
      'src/open.ts',
      "import './stores/sqlite/index.js'; import './worker/run.js'; import './system.js';",
    ],
    ['words in comments and strings', 'src/core/a.ts', "// Date.now()\nconst x = 'setTimeout(Math.random)';"],
    ['a given date', 'src/core/a.ts', 'new Date(at);'],
    ['an injected timer', 'src/worker/a.ts', 'interface T { setTimeout(f: () => void): void }\ntimers.setTimeout(f);'],
    ['a microtask', 'src/worker/a.ts', 'queueMicrotask(f);'],
    [
      'the system all of it',
      'src/system.ts',
      "import { randomBytes } from 'node:crypto'; Date.now(); setTimeout(f, 1);",
    ],
    [
      'a factory whose methods are short',
      'src/core/a.ts',
      `const make = () => ({\n${'m() {\n1;\n2;\n},\n'.repeat(30)}});`,
    ],
    [
      'a factory of many one-line methods',
      'src/core/a.ts',
      `function make() {\nreturn {\n${'m: () => 1,\n'.repeat(90)}};\n}`,
    ],
    ['400 lines in a file', 'src/core/a.ts', 'void 0;\n'.repeat(400)],
    ['70 lines in a function', 'src/core/a.ts', `function f() {\n${'void 0;\n'.repeat(68)}}`],
    ['names that only contain such a word', 'src/core/database.ts', ''],
  ])('%s', (_what, path, text) => {
    expect(check(path, text)).toEqual([]);
  });

  it('every row of the table to say why', () => {
    for (const [name, layer] of Object.entries(layers)) expect(layer.because, name).not.toBe('');
  });
});
