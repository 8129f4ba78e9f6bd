// Compares the written surface (spec/surface.d.ts) with the types of the package.
// The surface is first cut down to what exists today; then every exported name must be assignable in both directions,
// so that what users write is accepted and what they read is there.
import { dirname, join, relative, sep } from 'node:path';
import ts from 'typescript';
import { missingFields, promised } from './presence.js';

/** A top-level name (`Plan`) or a member (`Queue.plan`), and why the package does not have it yet. */
export type NotYet = Readonly<Record<string, string>>;
/**
 * Names where the package says more than the surface ("adding is free"), and why.
 * gives: users only receive it, and get more than promised. takes: users only hand it in, and may hand in more.
 * adds: one of several words that users only receive, with more words than promised.
 * refuses: a function whose types also hold a rule that the surface has only in words; its fields are compared all the same.
 */
export type Wider = Readonly<
  Record<string, { readonly way: 'gives' | 'takes' | 'adds' | 'refuses'; readonly because: string }>
>;

export interface Comparison {
  readonly surface: string;
  /** The package's entry, as a path; `files` may hold it instead of the disk. */
  readonly entry: string;
  readonly files?: Readonly<Record<string, string>>;
  readonly notYet: NotYet;
  readonly wider: Wider;
}

const root = join(import.meta.dirname, '..', '..');
const surfacePath = join(root, 'spec', 'surface.today.d.ts');
const checkPath = join(root, 'test', 'surface', 'check.ts');

/** Every difference, in words. An empty list means that package and surface agree. */
export function compareSurface(options: Comparison): string[] {
  const { text, names, problems } = cut(options);
  const check = writeCheck(names, options);
  const program = compile({ ...options.files, [surfacePath]: text, [checkPath]: check.text });
  const broken = [surfacePath, checkPath].flatMap((path) =>
    complaints(program, path, path === checkPath ? check.lines : []),
  );
  return [...problems, ...byName(program, options), ...broken];
}

interface Name {
  readonly name: string;
  readonly kind: 'type' | 'value' | 'class';
  readonly parameters: readonly string[];
}

interface Edit {
  readonly node: ts.Node;
  readonly text: string;
}

/**
 * Removes what is not built yet, and lists the exported names that are left. A type that the package gives more of is
 * compared under another name; wherever else the surface speaks of it, the package's own type stands in for it.
 */
function cut({ surface, notYet, wider, entry }: Comparison): { text: string; names: Name[]; problems: string[] } {
  const tree = ts.createSourceFile('surface.d.ts', surface, ts.ScriptTarget.Latest, true);
  const unused = new Set([...Object.keys(notYet), ...Object.keys(wider)]);
  const edits: Edit[] = [];
  const names: Name[] = [];
  for (const statement of tree.statements) {
    const name = declaredName(statement);
    if (name === undefined) continue;
    unused.delete(name);
    if (name in notYet) {
      edits.push({ node: statement, text: '' });
      continue;
    }
    if (ts.isTypeAliasDeclaration(statement) && wider[name]?.way === 'adds')
      edits.push({ node: statement.name, text: promised(name) });
    if (ts.isInterfaceDeclaration(statement)) {
      if (wider[name]?.way === 'gives') edits.push({ node: statement.name, text: promised(name) });
      for (const member of statement.members) {
        const path = `${name}.${member.name?.getText() ?? ''}`;
        if (!(path in notYet)) continue;
        unused.delete(path);
        edits.push({ node: member, text: '' });
      }
    }
    if (isExported(statement)) names.push(describeName(statement, name));
  }
  let text = surface;
  for (const { node, text: instead } of edits.sort((a, b) => b.node.getStart() - a.node.getStart())) {
    text = text.slice(0, node.getStart()) + instead + text.slice(node.getEnd());
  }
  const ours = names.filter(({ name }) => standsIn(wider[name]?.way)).map(({ name }) => name);
  const stand = `import type { ${ours.join(', ')} } from ${moduleName(surfacePath, entry)};\nexport type { ${ours.join(', ')} };\n`;
  const problems = [...unused].map((name) => `${name} is on a list, but the surface does not have it`);
  return { text: ours.length > 0 ? stand + text : text, names, problems };
}

/** Ours is used wherever else the surface speaks of it. */
function standsIn(way: Wider[string]['way'] | undefined): boolean {
  return way === 'gives' || way === 'adds';
}

function declaredName(statement: ts.Statement): string | undefined {
  if (ts.isVariableStatement(statement)) return statement.declarationList.declarations[0]?.name.getText();
  return 'name' in statement ? (statement.name as ts.Identifier).text : undefined;
}

function isExported(statement: ts.Statement): boolean {
  const modifiers = ts.canHaveModifiers(statement) ? ts.getModifiers(statement) : undefined;
  return modifiers?.some((modifier) => modifier.kind === ts.SyntaxKind.ExportKeyword) ?? false;
}

function describeName(statement: ts.Statement, name: string): Name {
  if (ts.isClassDeclaration(statement)) return { name, kind: 'class', parameters: [] };
  if (ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement)) {
    // Any argument that fits serves: both sides get the same one.
    const parameters = (statement.typeParameters ?? []).map((parameter, index) =>
      parameter.constraint ? "'some'" : `{ readonly field${index}: number }`,
    );
    return { name, kind: 'type', parameters };
  }
  return { name, kind: 'value', parameters: [] };
}

/** The program that compiles only if both agree, with what each line proves. */
function writeCheck(names: readonly Name[], { entry, wider }: Comparison): { text: string; lines: string[] } {
  const lines: [code: string, proves: string][] = [
    [`import type * as S from ${moduleName(checkPath, surfacePath)};`, 'the surface can be read'],
    [`import * as P from ${moduleName(checkPath, entry)};`, 'the package can be read'],
    ['type Fits<From extends To, To> = [From, To];', ''],
  ];
  for (const { name, kind, parameters } of names) {
    const way = wider[name]?.way;
    const given = parameters.length > 0 ? `<${parameters.join(', ')}>` : '';
    const of = kind === 'value' ? 'typeof ' : '';
    const ours = `${of}P.${name}${given}`;
    const theirs = `${of}S.${standsIn(way) ? promised(name) : name}${given}`;
    if (way !== 'takes' && way !== 'adds' && way !== 'refuses') {
      lines.push([
        `export type ${name}_read = Fits<${ours}, ${theirs}>;`,
        `the package gives the ${name} that the surface promises`,
      ]);
    }
    if (way !== 'gives' && kind !== 'value') {
      lines.push([
        `export type ${name}_write = Fits<${theirs}, ${ours}>;`,
        `the package takes the ${name} that the surface allows`,
      ]);
    }
    if (kind !== 'type') {
      lines.push([`export const ${name}_value: unknown = P.${name};`, `${name} is there at run time`]);
    }
  }
  return { text: lines.map(([code]) => code).join('\n'), lines: lines.map(([, proves]) => proves) };
}

function moduleName(from: string, to: string): string {
  const path = relative(dirname(from), to).split(sep).join('/');
  return JSON.stringify((path.startsWith('.') ? path : `./${path}`).replace(/(\.d)?\.ts$/, '.js'));
}

/** Files on disk are parsed once for all comparisons. */
const parsed = new Map<string, ts.SourceFile | undefined>();

function compile(virtual: Readonly<Record<string, string>>): ts.Program {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  // Declaration files are looked at too: one of them is the surface itself.
  const compilerOptions = { ...config.compilerOptions, skipLibCheck: false };
  const { options } = ts.parseJsonConfigFileContent({ compilerOptions, files: [] }, ts.sys, root);
  const host = ts.createCompilerHost(options);
  const { fileExists, getSourceFile } = host;
  host.fileExists = (path) => path in virtual || fileExists(path);
  host.getSourceFile = (path, target, ...rest) => {
    const text = virtual[path];
    if (text !== undefined) return ts.createSourceFile(path, text, target);
    if (!parsed.has(path)) parsed.set(path, getSourceFile(path, target, ...rest));
    return parsed.get(path);
  };
  return ts.createProgram(Object.keys(virtual), options, host);
}

function complaints(program: ts.Program, path: string, proves: readonly string[]): string[] {
  const file = program.getSourceFile(path);
  if (file === undefined) return [`${path} is missing`];
  const found = [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)];
  return found.map((diagnostic) => {
    const line = file.getLineAndCharacterOfPosition(diagnostic.start ?? 0).line;
    const message = ts.flattenDiagnosticMessageText(diagnostic.messageText, '\n');
    return `${proves[line] ? `not so: ${proves[line]}` : path.slice(root.length + 1)}\n${message}`;
  });
}

/** By name: what the package still lacks, and what is listed as not built but is there by now (the list may only shrink). */
function byName(program: ts.Program, { entry, notYet }: Comparison): string[] {
  const checker = program.getTypeChecker();
  const [ours, surface] = [program.getSourceFile(entry), program.getSourceFile(surfacePath)];
  const module = ours && checker.getSymbolAtLocation(ours);
  if (!module || !surface) return [`${entry} exports nothing`];
  const exported = new Map(checker.getExportsOfModule(module).map((symbol) => [symbol.name, symbol]));
  const appeared = Object.keys(notYet).filter((path) => {
    const [name = '', member] = path.split('.');
    const symbol = exported.get(name);
    if (symbol === undefined || member === undefined) return symbol !== undefined;
    const type = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
    return checker.getDeclaredTypeOfSymbol(type).getProperty(member) !== undefined;
  });
  return [
    ...missingFields(checker, surface, module),
    ...appeared.map((path) => `${path} is in the package now: take it off the notYet list`),
  ];
}
