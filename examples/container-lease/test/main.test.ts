// `npm start`, as a user meets it.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { engine, engineHost, isEngineThere } from '../../../test/docker.js';

function start(
  env: NodeJS.ProcessEnv,
  args: readonly string[] = [],
): Promise<{ code: number; stdout: string; stderr: string }> {
  const cwd = join(import.meta.dirname, '..');
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
  const left = await (await engine()).listContainers({ all: true, filters: { label: ['lastout.kind=container'] } });
  expect(left.filter(({ Labels }) => Labels['lastout.namespace']?.startsWith('tour-'))).toEqual([]);
});
