// Writes the bill of materials of the package: what it brings along and the optional peers that it is tested with, by the
// lock file. The same lock file gives the same bytes: no time, no path, no address. `npm run sbom -- FILE` names the file.
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
/** @type {{ name: string; version: string; license: string; dependencies: Record<string, string>; peerDependencies: Record<string, string> }} */
const own = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
/** @typedef {{ version: string; license?: string; integrity: string; dependencies?: Record<string, string>; optionalDependencies?: Record<string, string>; peerDependencies?: Record<string, string>; peerDependenciesMeta?: Record<string, { optional?: boolean }> }} Locked */
/** @type {{ packages: Record<string, Locked> }} */
const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));

/**
 * Where the lock file puts what a package asks for: beside it, or in a folder further out.
 * @param {string} from
 * @param {string} name
 * @returns {string | null}
 */
function placeOf(from, name) {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('node_modules/') - 1))) {
    const place = `${folder === '' ? '' : `${folder}/`}node_modules/${name}`;
    if (packages[place]) return place;
    if (folder === '') return null;
  }
}

/** @param {string} place */
function needsOf(place) {
  const {
    dependencies = {},
    optionalDependencies = {},
    peerDependencies = {},
    peerDependenciesMeta = {},
  } = packages[place];
  const peers = Object.keys(peerDependencies).filter((name) => !peerDependenciesMeta[name]?.optional);
  const names = [...Object.keys({ ...dependencies, ...optionalDependencies }), ...peers];
  return [...new Set(names.map((name) => placeOf(place, name)))].filter((found) => found !== null);
}

/**
 * @param {readonly string[]} names
 * @returns {Set<string>}
 */
function allFor(names) {
  /** @type {Set<string>} */
  const found = new Set();
  /** @type {(place: string | null) => void} */
  const add = (place) => {
    if (place === null || found.has(place)) return;
    found.add(place);
    needsOf(place).forEach(add);
  };
  for (const name of names) add(placeOf('', name));
  return found;
}

const required = allFor(Object.keys(own.dependencies));
const all = allFor([...Object.keys(own.dependencies), ...Object.keys(own.peerDependencies)]);

/** @param {string} place */
const nameOf = (place) => place.slice(place.lastIndexOf('node_modules/') + 'node_modules/'.length);
/** @type {(name: string, version: string) => string} */
const purlOf = (name, version) => `pkg:npm/${name.replace(/^@/, '%40')}@${version}`;
/** @param {string} place */
const refOf = (place) => purlOf(nameOf(place), packages[place].version);
/** @param {string | undefined} license */
const licensesOf = (license) =>
  license === undefined ? [] : [/[ ()]/.test(license) ? { expression: license } : { license: { id: license } }];

/** @param {string} place */
function componentOf(place) {
  const { version, license, integrity } = packages[place];
  const [alg, digest] = integrity.split('-');
  return {
    type: 'library',
    'bom-ref': refOf(place),
    name: nameOf(place),
    version,
    scope: required.has(place) ? 'required' : 'optional',
    hashes: [{ alg: alg.replace('sha', 'SHA-'), content: Buffer.from(digest, 'base64').toString('hex') }],
    licenses: licensesOf(license),
    purl: refOf(place),
  };
}

const places = [...all].sort();
const itself = purlOf(own.name, own.version);
const first = [...Object.keys(own.dependencies), ...Object.keys(own.peerDependencies)].map((name) => placeOf('', name));
const bom = {
  bomFormat: 'CycloneDX',
  specVersion: '1.5',
  version: 1,
  metadata: {
    component: {
      ...{ type: 'library', 'bom-ref': itself, name: own.name, version: own.version },
      ...{ licenses: licensesOf(own.license), purl: itself },
    },
  },
  // One package may lie in several folders.
  components: [...new Map(places.map((place) => [refOf(place), componentOf(place)])).values()],
  dependencies: [
    {
      ref: itself,
      dependsOn: first
        .filter((place) => place !== null)
        .map(refOf)
        .sort(),
    },
    ...new Map(
      places.map((place) => [refOf(place), { ref: refOf(place), dependsOn: needsOf(place).map(refOf).sort() }]),
    ).values(),
  ],
};

const file = resolve(process.argv[2] ?? join(root, `${own.name}-${own.version}.cdx.json`));
writeFileSync(file, `${JSON.stringify(bom, null, 2)}\n`);
console.log(`${bom.components.length} components: ${file}`);
