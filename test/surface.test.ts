// The package's types and spec/surface.d.ts agree, name by name, except for what is written down here as not built yet.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { compareSurface, type NotYet, type Wider } from './surface/compare.js';

const root = join(import.meta.dirname, '..');
const surface = readFileSync(join(root, 'spec', 'surface.d.ts'), 'utf8');

const http = 'the HTTP interface is not built yet';
const operators = 'what operators read and do is not built yet';
const tags = 'tags are not built yet';

const notYet: NotYet = {
  'JobOptions.tags': tags,
  'Job.tags': tags,
  'Definition.tags': tags,
  'Filter.tag': tags,
  'Filter.metadata': operators,
  'Filter.errorCode': operators,
  'Filter.fingerprint': operators,
  'Filter.worker': operators,
  'Act.by': operators,
  'Queue.counts': operators,
  'Queue.update': operators,
  'Queue.timeline': operators,
  'Queue.history': operators,
  'Queue.errors': operators,
  'Queue.workers': operators,
  'Queue.tellWorker': operators,
  'Queue.acts': operators,
  'Queue.pauseSchedule': operators,
  'Queue.runSchedule': operators,
  'Queue.acknowledge': operators,
  'Queue.silence': operators,
  Role: http,
  createServer: http,
  Server: http,
  createClient: http,
  Client: http,
  HttpCode: http,
};

const wider: Wider = {
  Code: {
    way: 'adds',
    because:
      'INVALID_TRANSACTION: a `tx` that is no open transaction on the store; ARTIFACTS_MISSING: no place for artifacts',
  },
  OpenOptions: { way: 'takes', because: 'artifacts may also be { blobs }; metrics, tracing, alerts' },
  Plan: { way: 'gives', because: 'held says what stays only because of a hold' },
  Queue: { way: 'gives', because: 'logs(id) reads the lines that a handler wrote' },
  QueueStats: { way: 'gives', because: 'blockedBy, blockedUntil and full say what a limit does' },
  Stats: { way: 'gives', because: 'its queues are QueueStats' },
  StandardSchema: { way: 'takes', because: 'schema libraries declare `types` as possibly undefined' },
  Definition: { way: 'takes', because: 'its input is a StandardSchema' },
  Context: { way: 'gives', because: 'enqueue also takes the name of a type' },
  JobEvent: { way: 'gives', because: 'it is a union: which fields there are goes by the name' },
  defineJob: { way: 'refuses', because: 'an input or a result that JSON cannot hold does not compile' },
  handle: { way: 'refuses', because: 'a result that JSON cannot hold does not compile' },
};

describe('surface: the package', () => {
  it('agrees with spec/surface.d.ts', { timeout: 60_000 }, () => {
    expect(compareSurface({ surface, entry: join(root, 'src', 'index.ts'), notYet, wider })).toEqual([]);
  });

  it('gives a reason for each exception', () => {
    for (const [name, reason] of Object.entries(notYet)) expect(reason, name).not.toBe('');
    for (const [name, { because }] of Object.entries(wider)) expect(because, name).not.toBe('');
  });
});

describe('surface: the comparison sees', () => {
  const entry = join(root, 'src', 'planted.ts');
  const small = `
    export type State = 'pending' | 'done';
    export interface Options { queue?: string; later?: number }
    export interface Job<I> { readonly id: string; readonly input: I }
    export function open(where: string, options?: Options): Promise<Job<string>>;
    export class Fault extends Error { readonly code: State }
    export interface Later { at: number }`;
  const same = `
    export type State = 'pending' | 'done';
    export interface Options { queue?: string }
    export interface Job<I> { readonly id: string; readonly input: I; readonly more?: number }
    export function open(_where: string, _options?: Options): Promise<Job<string>> { throw new Fault(); }
    export class Fault extends Error { readonly code: State = 'done' }`;
  const later: NotYet = { Later: 'later', 'Options.later': 'later' };
  const compare = (text: string, list: NotYet = later, more: Wider = {}): string[] =>
    compareSurface({ surface: small, entry, files: { [entry]: text }, notYet: list, wider: more });

  it('nothing where both agree', () => {
    expect(compare(same)).toEqual([]);
  });

  it.each([
    ['a missing name', same.replace('export interface Options', 'interface Options'), 'Options'],
    ['a renamed field', same.replace('readonly id', 'readonly key'), 'Job'],
    ['a field of another type', same.replace('readonly id: string', 'readonly id: number'), 'Job'],
    ['a lost alternative', same.replace("'pending' | 'done'", "'done'"), 'State'],
    ['a new alternative', same.replace("'pending' | 'done'", "'pending' | 'done' | 'lost'"), 'State'],
    ['an option that is refused', same.replace('queue?: string', 'queue: string'), 'Options'],
    ['another result', same.replace('Promise<Job<string>> {', 'Promise<Job<number>> {'), 'open'],
    ['a further parameter', same.replace('_options?: Options', '_options: Options, _more: string'), 'open'],
    [
      'a class that became a type',
      same.replace(
        /export class Fault .*/,
        'class Fault extends Error { readonly code: State = "done" } export type { Fault };',
      ),
      'Fault',
    ],
  ])('%s', (_what, text, name) => {
    expect(compare(text).join('\n')).toContain(name);
  });

  it('something that has been built since', () => {
    expect(compare(`${same}\nexport interface Later { at: number }`)).toEqual([
      'Later is in the package now: take it off the notYet list',
    ]);
    expect(compare(same.replace('queue?: string', 'queue?: string; later?: number'))).toEqual([
      'Options.later is in the package now: take it off the notYet list',
    ]);
  });

  it('an entry of the list that the surface does not know', () => {
    expect(compare(same, { ...later, Never: 'x' })).toEqual(['Never is on a list, but the surface does not have it']);
  });

  it('something missing that the list does not excuse', () => {
    expect(compare(same, { Later: 'later' })).toEqual(['the package lacks Options.later']);
  });

  it('more than promised, unless a list allows it for that direction', () => {
    const gives: Wider = { Job: { way: 'gives', because: 'x' } };
    const adds: Wider = { State: { way: 'adds', because: 'x' } };
    const moreStates = same.replace("'pending' | 'done'", "'pending' | 'done' | 'lost'");
    expect(compare(moreStates)).not.toEqual([]);
    expect(compare(moreStates, later, adds)).toEqual([]);
    expect(compare(same.replace("'pending' | 'done'", "'done' | 'lost'"), later, adds)).not.toEqual([]);
    const takes: Wider = { Options: { way: 'takes', because: 'x' } };
    const moreJob = same.replace('readonly more?', 'readonly more');
    const moreOptions = same.replace('queue?: string', 'queue?: string | number');
    expect(compare(moreJob)).not.toEqual([]);
    expect(compare(moreJob, later, gives)).toEqual([]);
    expect(compare(moreOptions)).not.toEqual([]);
    expect(compare(moreOptions, later, takes)).toEqual([]);
    expect(compare(same.replace('readonly id', 'readonly key'), later, gives)).not.toEqual([]);
    expect(compare(same.replace('queue?: string', 'queue?: number'), later, takes)).not.toEqual([]);
  });

  it('an optional field that is missing deep inside', () => {
    const deep = (field: string): string => `
      export interface Way { ${field} }
      export interface Reader { find(filter?: string | { by?: { ${field} } }): Promise<readonly { found?: Way }[]> }`;
    const found = compareSurface({
      surface: deep('a?: 1; b?: 2'),
      entry,
      files: { [entry]: deep('a?: 1') },
      notYet: {},
      wider: {},
    });
    expect(found).toEqual(['the package lacks Way.b', 'the package lacks Reader.find().by.b']);
  });

  it('a changed surface of the package itself', { timeout: 60_000 }, () => {
    const planted = surface.replace('readonly epoch: number', 'readonly epoch: string');
    expect(planted).not.toBe(surface);
    const found = compareSurface({ surface: planted, entry: join(root, 'src', 'index.ts'), notYet, wider });
    expect(found.join('\n')).toContain('Job');
  });
});
