// `npm start`, as a user meets it, and what it leaves when it is told to end at different moments: looked for from outside.
import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { engine, engineHost, isEngineThere } from '../../../test/docker.js';
import { until } from './support.js';

const cwd = join(import.meta.dirname, '..');

function start(
  env: NodeJS.ProcessEnv,
  args: readonly string[] = [],
): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      ['--import', 'tsx', 'src/main.ts', ...args],
      { cwd, env: { ...process.env, ...env } },
      (_error, stdout, stderr) => resolve({ code: child.exitCode ?? 1, stdout, stderr }),
    );
  });
}

test('without an engine it says what is missing, and ends in good order', async () => {
  const { code, stdout } = await start({ DOCKER_HOST: 'unix:///nowhere/docker.sock' });
  expect(code).toBe(0);
  expect(stdout).toContain('There is no Docker Engine at unix:///nowhere/docker.sock: connect ENOENT');
  expect(stdout).toContain('DOCKER_HOST');
});

test('a variable that is no number stops it and is named', async () => {
  expect(await start({ CLEANUP_INTERVAL_MINUTES: 'soon' })).toMatchObject({
    code: 1,
    stderr: 'CLEANUP_INTERVAL_MINUTES must be a valid number\n',
  });
});

test('an argument that there is not stops it, and what there is is named', async () => {
  expect(await start({}, ['--srve'])).toMatchObject({
    ...{ code: 1, stdout: '' },
    stderr: 'There is no argument --srve: give --serve, or none for the tour\n',
  });
});

test.skipIf(!isEngineThere)('with one it shows a container that is deleted and one that is forgotten', async () => {
  const { code, stdout, stderr } = await start({ DOCKER_HOST: engineHost() });
  expect(stderr).toBe('');
  expect(code).toBe(0);
  expect(stdout.match(/"action":"cleanup","status":"success"/g)).toHaveLength(2);
  expect(stdout).toContain('What the engine still has of ours: 0 containers. Good night.');
  expect(await containers()).toEqual([]);
});

const node = [process.execPath, ['--import', 'tsx', 'src/main.ts']] as const;
/** Without the build before it, which other tests are reading. */
const npm = ['npm', ['start', '--silent', '--ignore-scripts']] as const;

/** Runs it as the leader of a group of its own, signals the leader as soon as it has said this, and waits for the end of all. */
async function toldToEnd(program: typeof node | typeof npm, said: string, signal: 'SIGINT' | 'SIGTERM') {
  const folder = mkdtempSync(join(tmpdir(), 'lastout-tour-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const env = { ...process.env, TMPDIR: folder, DOCKER_HOST: engineHost(), NODE_OPTIONS: '' };
  const child = spawn(program[0], program[1], { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'inherit'] });
  const group = child.pid!;
  onTestFinished(() => void (membersOf(group).length > 0 && process.kill(-group, 'SIGKILL')));
  let output = '';
  child.stdout.on('data', (data: Buffer) => (output += data.toString()));
  let code: number | null | undefined;
  child.on('exit', (number) => (code = number));
  await until(`"${said}"`, () => output.includes(said) || code !== undefined);
  expect(code).toBeUndefined();
  process.kill(group, signal);
  await until('its end', () => code !== undefined && membersOf(group).length === 0);
  // The loader of TypeScript keeps what it has compiled.
  return { code, output, files: readdirSync(folder).filter((name) => !/^(tsx|node-compile-cache)/.test(name)) };
}

/** The processes of a group, as the system has them. */
function membersOf(group: number): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => {
    try {
      const [state, , pgrp] = readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ');
      return Number(pgrp) === group && state !== 'Z';
    } catch {
      return false; // it has just ended
    }
  });
}

/** Of tours. This file alone makes some, one after the other. */
async function containers(): Promise<string[]> {
  const found = await (await engine()).listContainers({ all: true, filters: { label: ['lastout.kind=container'] } });
  return found.filter(({ Labels }) => Labels['lastout.namespace']?.startsWith('tour-')).map(({ Id }) => Id);
}

describe.skipIf(!isEngineThere || process.platform !== 'linux')('the tour that is told to end', () => {
  test.each([
    ['SIGTERM', 143, 'A server at'],
    ['SIGINT', 130, 'POST /api/provision'],
    ['SIGTERM', 143, '"status":"running"'],
    ['SIGINT', 130, 'DELETE /api/containers/'],
    ['SIGTERM', 143, 'Another one'],
    ['SIGINT', 130, 'nobody asks for it again:\n  '],
  ] as const)('by %s (%i) after "%s": no folder, no container, no process', async (signal, code, said) => {
    expect(await containers()).toEqual([]);
    const ended = await toldToEnd(node, said, signal);
    expect(ended).toMatchObject({ code, files: [] });
    expect(ended.output).not.toContain('Good night');
    expect(await containers()).toEqual([]);
  });

  test('under npm, whose child it is', async () => {
    const ended = await toldToEnd(npm, 'nobody asks for it again:\n  ', 'SIGTERM');
    expect(ended.files).toEqual([]);
    expect(ended.output).not.toContain('Good night');
    expect(await containers()).toEqual([]);
  });
});
