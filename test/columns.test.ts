// A new field of a job does not compile until the table of columns says what it is to the stores.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { columnList, plainJob, plainStored, storedNames } from '../src/core/columns.js';

const root = resolve(import.meta.dirname, '..');
const nouns = resolve(root, 'src/core/stored-job.ts');
const { config } = ts.readConfigFile(resolve(root, 'tsconfig.build.json'), (path) => readFileSync(path, 'utf8')) as {
  config: { compilerOptions: object };
};
const { options } = ts.parseJsonConfigFileContent(
  { ...config, extends: undefined, compilerOptions: { strict: true, target: 'es2023', module: 'nodenext', types: [] } },
  ts.sys,
  root,
);

/** Errors of the table of columns, where the file of nouns has this text. */
function errorsWith(text: string): string[] {
  const host = ts.createCompilerHost(options);
  const read = host.getSourceFile.bind(host);
  host.getSourceFile = (name, languageVersion, ...more) =>
    resolve(name) === nouns
      ? ts.createSourceFile(name, text, languageVersion, true)
      : read(name, languageVersion, ...more);
  const program = ts.createProgram([resolve(root, 'src/core/columns.ts')], { ...options, noEmit: true }, host);
  const file = program.getSourceFile(resolve(root, 'src/core/columns.ts'))!;
  return program
    .getSemanticDiagnostics(file)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}

function withField(interfaceName: string): string {
  const text = readFileSync(nouns, 'utf8');
  const start = `export interface ${interfaceName} {\n`;
  expect(text).toContain(start);
  return text.replace(start, `${start}  readonly surprise: string | null;\n`);
}

test('the table of columns compiles as it is', () => {
  expect(errorsWith(readFileSync(nouns, 'utf8'))).toEqual([]);
});

test.each(['NewJob', 'StoredJob', 'JobFilter'])('a new field of %s does not compile until it is classified', (name) => {
  const errors = errorsWith(withField(name));
  expect(errors).not.toEqual([]);
  expect(errors.every((error) => error.includes('surprise'))).toBe(true);
});

test('every column that a job may lack can be told from a plain one', () => {
  for (const { name, isPlain } of columnList.filter(({ name }) => name in plainJob))
    expect([name, typeof isPlain]).toEqual([name, 'function']);
  expect(storedNames.toSorted()).toEqual(Object.keys(plainStored).toSorted());
});
