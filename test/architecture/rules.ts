// The rules that keep the code in layers, and under an injected clock and seed, as one function over a list of files.
// Everything is read from the syntax tree, so a word in a comment or a string never counts.
import { posix } from 'node:path';
import ts from 'typescript';

export interface SourceFile {
  /** Relative to the repository, with forward slashes: `src/core/state.ts`. */
  readonly path: string;
  readonly text: string;
}

interface Layer {
  /** Other layers that this one may import. Its own folder is always allowed. */
  readonly sees: readonly string[] | 'all';
  /** Modules from outside `src`: exact names, or `node:*` for any built-in. */
  readonly outside: readonly string[] | 'all';
  readonly because: string;
}

/** The dependency rule. The longest matching path wins; a file that no row covers is itself an error. */
export const layers: Readonly<Record<string, Layer>> = {
  core: {
    sees: [],
    outside: [],
    because: 'core is nouns and pure policy: it imports nothing, so everything may rest on it',
  },
  queue: {
    sees: ['core', 'queue/ticks.ts'],
    outside: [],
    because: 'queue, worker and lifecycle meet only through interfaces in core',
  },
  'queue/ticks.ts': {
    sees: ['core', 'queue'],
    outside: ['croner'],
    because: 'the one file that knows the library which reads cron expressions',
  },
  worker: { sees: ['core'], outside: [], because: 'queue, worker and lifecycle meet only through interfaces in core' },
  lifecycle: {
    sees: ['core'],
    outside: [],
    because: 'queue, worker and lifecycle meet only through interfaces in core',
  },
  artifacts: {
    sees: ['core'],
    outside: ['node:*'],
    because: 'blobs know their owner by its id and meet the rest only through interfaces in core',
  },
  observe: {
    sees: ['core'],
    outside: ['prom-client', '@opentelemetry/api'],
    because: 'it looks at the store and is told what happens; nobody depends on being looked at',
  },
  resources: {
    sees: ['core'],
    outside: ['node:*', 'dockerode'],
    because: 'what can be leased is defined as a user would define it, and knows nothing of leases',
  },
  leases: {
    sees: ['core'],
    outside: [],
    because: 'leases are jobs like others and meet those who run and remove them only through interfaces in core',
  },
  'resources/process.ts': {
    sees: ['core', 'resources', 'system.ts'],
    outside: ['node:*'],
    because: 'a resource is defined as a user would define it, and is used without a queue that would bring the system',
  },
  codec: { sees: ['core'], outside: [], because: 'it stands before any store and knows none' },
  'stores/local': { sees: ['core'], outside: [], because: 'what memory and SQLite share knows neither of them' },
  'stores/memory': {
    sees: ['core', 'stores/local'],
    outside: [],
    because: 'a store is one engine and never sees another',
  },
  'stores/sqlite': {
    sees: ['core', 'stores/local'],
    outside: ['node:*', '@photostructure/sqlite'],
    because: 'a store is one engine and never sees another',
  },
  'stores/postgres': {
    sees: ['core', 'stores/postgres/plan.ts'],
    outside: ['node:*', 'pg'],
    because: 'a store is one engine and never sees another',
  },
  'stores/postgres/plan.ts': {
    sees: ['core', 'stores/postgres', 'system.ts'],
    outside: [],
    because: 'the dry run is called by itself, without a queue that would bring the system',
  },
  'stores/redis': {
    sees: ['core'],
    outside: ['node:*', 'ioredis'],
    because: 'a store is one engine and never sees another',
  },
  testing: {
    sees: ['core', 'system.ts', 'surface.ts', 'open.ts', 'testing/store-cases'],
    outside: [],
    because: 'the tools for tests use the library as a user does',
  },
  'testing/store-cases': {
    sees: ['core'],
    outside: ['node:assert/strict'],
    because: 'the conformance cases speak to a store through its contract, so that they fit any store',
  },
  'system.ts': {
    sees: ['core'],
    outside: ['node:crypto', 'node:perf_hooks'],
    because: 'the one file with a clock, timers and randomness stays a leaf',
  },
  'open-store.ts': {
    sees: ['core', 'stores/memory', 'stores/sqlite', 'stores/postgres', 'stores/redis'],
    outside: [],
    because: 'it turns a URL into a store and does nothing else',
  },
  'open-options.ts': {
    sees: ['core', 'queue', 'observe', 'surface.ts'],
    outside: [],
    because: 'it checks what open is given and opens nothing',
  },
  'surface.ts': {
    sees: ['core', 'queue', 'queue/ticks.ts', 'worker', 'lifecycle', 'observe'],
    outside: [],
    because: 'it gathers the public types of the parts and does nothing else',
  },
  'open-lifecycle.ts': {
    sees: ['core', 'artifacts', 'lifecycle', 'open-options.ts'],
    outside: [],
    because: 'it wires what ends things, as far as it needs nobody else',
  },
  'open-observe.ts': {
    sees: ['core', 'lifecycle', 'observe', 'open-lifecycle.ts'],
    outside: [],
    because: 'it wires metrics, tracing and alerts to what they look at',
  },
  'open-leases.ts': {
    sees: ['core', 'leases', 'worker'],
    outside: [],
    because: 'it gives leases the workers that end them, and does nothing else',
  },
  'open-close.ts': {
    sees: ['core', 'worker'],
    outside: [],
    because: 'it says whether a queue takes calls, and closes what open.ts gives it',
  },
  'open-workers.ts': {
    sees: ['core', 'queue', 'worker', 'open-close.ts', 'surface.ts'],
    outside: [],
    because: 'it gives workers what belongs to the queue that starts them',
  },
  'open.ts': { sees: 'all', outside: 'all', because: 'it wires everything' },
  'index.ts': { sees: 'all', outside: 'all', because: 'it names what is public' },
};

const limits = { fileLines: 400, functionLines: 70 } as const;
const emptyNames = new Set(
  ['util', 'helper', 'common', 'manager', 'service', 'base', 'impl', 'misc'].flatMap((name) => [name, `${name}s`]),
);
/** The only file that may tell the time, wait, or draw a number. */
const systemFile = 'src/system.ts';
const timers = new Set(['setTimeout', 'setInterval', 'setImmediate']);
const draws = new Set(['randomUUID', 'randomBytes', 'randomInt', 'getRandomValues']);
const members = new Set(['Date.now', 'Math.random', 'performance.now', 'process.hrtime', 'AbortSignal.timeout']);

/** Every broken rule, as `path:line what, because why`. An empty list is a sound architecture. */
export function violations(files: readonly SourceFile[]): string[] {
  return files.flatMap((file) => {
    const tree = ts.createSourceFile(file.path, file.text, ts.ScriptTarget.Latest, true);
    return [
      ...names(file),
      ...sizes(file, tree),
      ...imports(file, tree),
      ...(file.path === systemFile ? [] : ambient(file, tree)),
    ];
  });
}

function names({ path }: SourceFile): string[] {
  return path
    .split('/')
    .filter((segment) => segment.split(/[-.]/).some((word) => emptyNames.has(word.toLowerCase())))
    .map(
      (segment) =>
        `${path}: "${segment}" is a name that holds anything; name the file after the one thing that it owns`,
    );
}

function sizes(file: SourceFile, tree: ts.SourceFile): string[] {
  const found: string[] = [];
  const lines = file.text.replace(/\n$/, '').split('\n').length;
  if (lines > limits.fileLines) {
    found.push(`${file.path}: ${lines} lines, at most ${limits.fileLines}; a file that long owns more than one thing`);
  }
  visit(tree, (node) => {
    if (!isFunctionWithBody(node)) return;
    const length = ownLines(tree, node);
    if (length > limits.functionLines) {
      found.push(
        `${at(file, tree, node)} ${functionName(node)} has ${length} lines of its own, at most ${limits.functionLines}; ` +
          'a function that long cannot be read at one glance',
      );
    }
  });
  return [...found, ...sqlFunctions(file)];
}

/** A function in SQL is as long as one in TypeScript may be. */
function sqlFunctions({ path, text }: SourceFile): string[] {
  const found: string[] = [];
  for (const [declared, name] of text.matchAll(/^create function \$\{s\}\.(\w+)[\s\S]*?\$\$[\s\S]*?\$\$;$/gm)) {
    const lines = declared.split('\n').length;
    if (lines > limits.functionLines)
      found.push(`${path}: the SQL function ${name} has ${lines} lines, at most ${limits.functionLines}`);
  }
  return found;
}

/**
 * A named function inside another is measured by itself and counts nothing here: so factories and classes go by method.
 * A nameless one, a callback, counts as the line that it begins on; so does a text in another language, whose functions
 * are measured by themselves.
 */
function ownLines(tree: ts.SourceFile, outer: ts.Node): number {
  const lines = new Set(linesOf(tree, outer));
  const subtract = (node: ts.Node): void => {
    if (ts.isTemplateLiteral(node)) for (const line of linesOf(tree, node).slice(1)) lines.delete(line);
    if (!isFunctionWithBody(node)) return ts.forEachChild(node, subtract);
    const named = node.name ? node : holdsByName(node.parent) ? node.parent : undefined;
    for (const line of named ? linesOf(tree, named) : linesOf(tree, node).slice(1)) lines.delete(line);
  };
  ts.forEachChild(outer, subtract);
  return lines.size;
}

function holdsByName(node: ts.Node): node is ts.VariableDeclaration | ts.PropertyAssignment {
  return ts.isVariableDeclaration(node) || ts.isPropertyAssignment(node);
}

function imports(file: SourceFile, tree: ts.SourceFile): string[] {
  const own = layerOf(file.path);
  const layer = own === undefined ? undefined : layers[own];
  if (own === undefined || layer === undefined) {
    return [`${file.path}: no row of the layer table covers it; add one and say why`];
  }
  const found: string[] = [];
  visit(tree, (node) => {
    const specifier = importedBy(node);
    if (specifier === undefined) return;
    const where = at(file, tree, node);
    if (specifier === null) {
      found.push(`${where} imports by a computed name, which no rule can read; write the name out`);
    } else if (specifier.startsWith('.')) {
      const target = posix.join(posix.dirname(file.path), specifier);
      const seen = layerOf(target);
      if (seen === own || layer.sees === 'all' || (seen !== undefined && layer.sees.includes(seen))) return;
      found.push(`${where} ${own} must not import ${seen ?? target}: ${layer.because}`);
    } else if (!outsideAllowed(layer, specifier)) {
      found.push(`${where} ${own} must not import ${specifier}: ${layer.because}`);
    }
  });
  return found;
}

function outsideAllowed({ outside }: Layer, specifier: string): boolean {
  return (
    outside === 'all' || outside.includes(specifier) || (outside.includes('node:*') && specifier.startsWith('node:'))
  );
}

function layerOf(path: string): string | undefined {
  const inside = path.startsWith('src/') ? path.slice('src/'.length).replace(/\.js$/, '.ts') : undefined;
  return Object.keys(layers)
    .filter((name) => inside === name || inside?.startsWith(`${name}/`))
    .sort((a, b) => b.length - a.length)[0];
}

/** The module that a node imports: static, type-only, re-exported, dynamic, required or asked of the process. `null` when it is computed. */
function importedBy(node: ts.Node): string | null | undefined {
  if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) {
    return node.moduleSpecifier === undefined ? undefined : literal(node.moduleSpecifier);
  }
  if (ts.isImportTypeNode(node)) return ts.isLiteralTypeNode(node.argument) ? literal(node.argument.literal) : null;
  if (!ts.isCallExpression(node)) return undefined;
  const dynamic = node.expression.kind === ts.SyntaxKind.ImportKeyword;
  const required = ['require', 'getBuiltinModule'].includes(lastName(node.expression));
  return dynamic || required ? literal(node.arguments[0]) : undefined;
}

function literal(node: ts.Node | undefined): string | null {
  return node !== undefined && ts.isStringLiteralLike(node) ? node.text : null;
}

/** Uses of the machine's own clock, timers and randomness. */
function ambient(file: SourceFile, tree: ts.SourceFile): string[] {
  const found: string[] = [];
  visit(tree, (node) => {
    const use = ambientUse(node);
    if (use === undefined) return;
    found.push(
      `${at(file, tree, node)} uses ${use}; only ${systemFile} may, because everything must run under an injected clock and seed`,
    );
  });
  return found;
}

function ambientUse(node: ts.Node): string | undefined {
  if (ts.isNewExpression(node) && isNamed(node.expression, 'Date') && !node.arguments?.length) return 'new Date()';
  if (ts.isCallExpression(node) && isNamed(node.expression, 'Date')) return 'Date()';
  if (ts.isPropertyAccessExpression(node) || ts.isElementAccessExpression(node)) {
    const name = ts.isPropertyAccessExpression(node) ? node.name.text : (literal(node.argumentExpression) ?? '');
    const object = lastName(node.expression);
    if (members.has(`${object}.${name}`)) return `${object}.${name}`;
    if (draws.has(name)) return name;
    return timers.has(name) && (object === 'globalThis' || object === 'global') ? `${object}.${name}` : undefined;
  }
  // A free name, not a member or a declaration of that name: an injected `timers.setTimeout` is what the rule is for.
  if (!ts.isIdentifier(node) || !(timers.has(node.text) || draws.has(node.text))) return undefined;
  const { parent } = node;
  if (ts.isPropertyAccessExpression(parent) && parent.name === node) return undefined;
  if (ts.isImportSpecifier(parent) || ts.isShorthandPropertyAssignment(parent)) return node.text;
  const declares = 'name' in parent && parent.name === node;
  return declares ? undefined : node.text;
}

function isNamed(node: ts.Node, name: string): boolean {
  return lastName(node) === name;
}

/** `Date` of both `Date` and `globalThis.Date`. */
function lastName(node: ts.Node): string {
  if (ts.isIdentifier(node)) return node.text;
  return ts.isPropertyAccessExpression(node) ? node.name.text : '';
}

function isFunctionWithBody(node: ts.Node): node is ts.FunctionLikeDeclaration {
  return ts.isFunctionLike(node) && 'body' in node && node.body !== undefined;
}

function functionName(node: ts.FunctionLikeDeclaration): string {
  if (ts.isConstructorDeclaration(node)) return 'constructor';
  const name = node.name ?? (holdsByName(node.parent) ? node.parent.name : undefined);
  return name === undefined ? 'a function' : name.getText();
}

function linesOf(tree: ts.SourceFile, node: ts.Node): number[] {
  const line = (position: number): number => tree.getLineAndCharacterOfPosition(position).line;
  const first = line(node.getStart(tree));
  return Array.from({ length: line(node.getEnd()) - first + 1 }, (_, index) => first + index);
}

function at(file: SourceFile, tree: ts.SourceFile, node: ts.Node): string {
  return `${file.path}:${tree.getLineAndCharacterOfPosition(node.getStart(tree)).line + 1}`;
}

function visit(node: ts.Node, see: (node: ts.Node) => void): void {
  see(node);
  ts.forEachChild(node, (child) => visit(child, see));
}
