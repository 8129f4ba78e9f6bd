// What the package brings along: every locked package is known by its digest, and the bill of materials names what ships.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { temporaryFolder } from './engines.js';

const root = join(import.meta.dirname, '..');

interface Locked {
  readonly version: string;
  readonly link?: boolean;
  readonly integrity?: string;
  readonly resolved?: string;
}

const readJson = <T>(...path: string[]): T => JSON.parse(readFileSync(join(root, ...path), 'utf8')) as T;
const packagesIn = (file: string) => Object.entries(readJson<{ packages: Record<string, Locked> }>(file).packages);

describe.each(['package-lock.json', 'bench/package-lock.json'])('%s', (file) => {
  // The project itself, its workspaces and the links to them are folders here: they have no digest by nature.
  const fetched = packagesIn(file).filter(([place, { link }]) => place.includes('node_modules/') && !link);

  it('has the integrity of every package that is fetched', () => {
    expect(fetched.length).toBeGreaterThan(100);
    expect(fetched.filter(([, { integrity }]) => !integrity?.startsWith('sha512-')).map(([place]) => place)).toEqual(
      [],
    );
  });

  it('names no address', () => {
    expect(packagesIn(file).filter(([, { resolved }]) => resolved?.includes(':'))).toEqual([]);
  });
});

describe('npm run sbom', () => {
  interface Component {
    readonly 'bom-ref': string;
    readonly name: string;
    readonly version: string;
    readonly scope: 'required' | 'optional';
    readonly purl: string;
    readonly hashes: readonly { readonly alg: string; readonly content: string }[];
  }
  interface Bom {
    readonly bomFormat: string;
    readonly specVersion: string;
    readonly metadata: { readonly component: Component };
    readonly components: readonly Component[];
    readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
  }

  function make(): string {
    const file = join(temporaryFolder(), 'lastout.cdx.json');
    execFileSync(process.execPath, [join(root, 'scripts', 'sbom.mjs'), file], { cwd: temporaryFolder() });
    return readFileSync(file, 'utf8');
  }

  it('names the dependencies as required and the optional peers as optional, with versions and digests of the lock file', () => {
    const bom = JSON.parse(make()) as Bom;
    const own = readJson<Record<'dependencies' | 'peerDependencies', Record<string, string>> & { version: string }>(
      'package.json',
    );
    expect(bom).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.5' });
    expect(bom.metadata.component).toMatchObject({ name: 'lastout', purl: `pkg:npm/lastout@${own.version}` });
    const named = (scope: string) => bom.components.filter((one) => one.scope === scope).map(({ name }) => name);
    expect(named('required')).toEqual(Object.keys(own.dependencies));
    expect(named('optional')).toEqual(expect.arrayContaining(Object.keys(own.peerDependencies)));
    const locked = new Set(packagesIn('package-lock.json').map(([, { integrity }]) => integrity));
    for (const { name, hashes } of bom.components) {
      const digest = Buffer.from(hashes[0]!.content, 'hex').toString('base64');
      expect([name, hashes[0]!.alg, locked.has(`sha512-${digest}`)]).toEqual([name, 'SHA-512', true]);
    }
  });

  it('leaves out what only develops it, and every reference leads somewhere', () => {
    const { components, dependencies, metadata } = JSON.parse(make()) as Bom;
    const names = components.map(({ name }) => name);
    for (const name of ['vitest', 'typescript', '@biomejs/biome', 'zod']) expect(names).not.toContain(name);
    const refs = new Set([metadata.component, ...components].map((one) => one['bom-ref']));
    expect(refs.size).toBe(components.length + 1);
    expect(new Set(dependencies.map(({ ref }) => ref))).toEqual(refs);
    expect(dependencies.flatMap(({ dependsOn }) => dependsOn).filter((ref) => !refs.has(ref))).toEqual([]);
    const pg = dependencies.find(({ ref }) => ref.startsWith('pkg:npm/pg@'))!;
    expect(pg.dependsOn.map((ref) => ref.replace(/@[^@]*$/, ''))).toContain('pkg:npm/pg-protocol');
  });

  it('is the same each time, without a path or an address of the machine that made it', () => {
    const text = make();
    expect(make()).toBe(text);
    expect(text).not.toContain('://');
    expect(text).not.toContain(root);
  });
});
