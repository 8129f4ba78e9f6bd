// lastout/process: child processes on lease, with all that they start; found by their mark, never by a number alone.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { type Lease, open, type Queue } from '../src/index.js';
import { stepsOf } from '../src/core/resource.js';
import { markedProcesses, signalMarked } from '../src/resources/marked-processes.js';
import { processResource } from '../src/resources/process.js';
import { found } from './leases-support.js';
import { fakeClock } from '../src/testing/index.js';
import { closedAfterwards, closeUnder, expectCode, recordingLogger, temporaryFolder } from './support.js';

const isLinux = existsSync('/proc/stat');
const soon = { timeout: 20_000, interval: 20 };
const signal = new AbortController().signal;
const pidOf = (lease: Lease): number => (lease.info as { pid: number }).pid;

function isAlive(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return !/\) [ZX] /.test(stat);
  } catch {
    return false;
  }
}

async function opened(): Promise<Queue> {
  return closedAfterwards(await open('memory:', { namespace: `test-${process.pid}-${++namespaces}` }));
}
let namespaces = 0;

/** Whatever a test leaves goes. */
function cleared(resource: ReturnType<typeof processResource>, lease: Lease): void {
  onTestFinished(() => stepsOf(resource).destroy({ name: lease.name, info: null, attempt: 1, signal }));
}

describe.skipIf(!isLinux)('a process on lease', () => {
  it('runs until it is released, and is listed under its name meanwhile', async () => {
    const queue = await opened();
    const resource = processResource();
    const lease = await queue.lease(resource, { command: 'sleep', args: ['600'] }, { ttl: '5m' });
    cleared(resource, lease);
    expect(isAlive(pidOf(lease))).toBe(true);
    const listed = await stepsOf(resource).list(signal);
    const mine = listed.find(({ name }) => name === lease.name)!;
    expect(Math.abs(mine.createdAt.getTime() - Date.now())).toBeLessThan(60_000);
    await lease.release();
    await vi.waitFor(async () => expect((await found(queue))[0]!.state).toBe('ended'), soon);
    expect(isAlive(pidOf(lease))).toBe(false);
    expect((await stepsOf(resource).list(signal)).some(({ name }) => name === lease.name)).toBe(false);
  });

  it('that ignores SIGTERM is killed, and so is all that it has started', async () => {
    const queue = await opened();
    const resource = processResource({ kind: 'stubborn', grace: '200ms' });
    const file = join(temporaryFolder(), 'pid');
    const script = `trap '' TERM; (trap '' TERM; setsid sleep 600 & echo $! > ${file}; wait) & wait; sleep 600`;
    const lease = await queue.lease(resource, { command: 'sh', args: ['-c', script] }, { ttl: '5m' });
    cleared(resource, lease);
    await vi.waitFor(() => expect(readFileSync(file, 'utf8')).toMatch(/\d\n/), soon);
    const inner = Number(readFileSync(file, 'utf8'));
    expect(isAlive(inner)).toBe(true);
    await lease.release();
    await vi.waitFor(async () => expect((await found(queue))[0]!.state).toBe('ended'), soon);
    expect([pidOf(lease), inner].map(isAlive)).toEqual([false, false]);
  });

  it('is left alone by another program that has the same namespace and kind, whatever its clock says', async () => {
    const resource = processResource();
    const mine = closedAfterwards(await open('memory:'));
    const lease = await mine.lease(resource, { command: 'sleep', args: ['600'] }, { ttl: '5m' });
    cleared(resource, lease);
    const clock = fakeClock(new Date(Date.now() + 3_600_000));
    const { logger, lines } = recordingLogger();
    const theirs = await open('memory:', { clock, logger, resources: [resource] });
    const compared = vi.spyOn(stepsOf(resource), 'list');
    while (compared.mock.calls.length === 0) await clock.advance('1s');
    expect(await compared.mock.results[0]!.value).toContainEqual(expect.objectContaining({ name: lease.name }));
    await clock.settle();
    expect(lines.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([]);
    await closeUnder(clock, theirs);
    expect(isAlive(pidOf(lease))).toBe(true);
  });

  it('is signalled only if owner, start and mark are still those that were listed: its number may be another’s by now', async () => {
    const queue = await opened();
    const resource = processResource();
    const lease = await queue.lease(resource, { command: 'sleep', args: ['600'] }, { ttl: '5m' });
    cleared(resource, lease);
    const listed = (await markedProcesses()).find(({ name }) => name === lease.name)!;
    expect(listed).toMatchObject({ pid: pidOf(lease), owner: process.geteuid!() });
    const others = [
      { ...listed, startedAt: listed.startedAt - 1 },
      { ...listed, name: `${listed.name}x` },
      { ...listed, owner: listed.owner + 1 },
      { ...listed, pid: process.pid },
    ];
    for (const other of others) expect(signalMarked(other, 'SIGKILL')).toBe(false);
    expect(isAlive(listed.pid)).toBe(true);
    expect(signalMarked(listed, 'SIGTERM')).toBe(true);
    await vi.waitFor(() => expect(isAlive(listed.pid)).toBe(false), soon);
    expect(signalMarked(listed, 'SIGKILL')).toBe(false);
  });

  it('gone already is a success, and another process is never touched', async () => {
    const queue = await opened();
    const resource = processResource();
    const first = await queue.lease(resource, { command: 'sleep', args: ['600'] }, { ttl: '5m' });
    const second = await queue.lease(resource, { command: 'sleep', args: ['600'] }, { ttl: '5m' });
    for (const lease of [first, second]) cleared(resource, lease);
    const at = { name: first.name, info: { pid: pidOf(second) }, attempt: 1, signal }; // its number is another's by now
    await stepsOf(resource).destroy(at);
    await stepsOf(resource).destroy(at);
    expect([first, second].map((lease) => isAlive(pidOf(lease)))).toEqual([false, true]);
  });

  it('what cannot be started is told as it is, and what is wrong is refused', async () => {
    const queue = await opened();
    const resource = processResource();
    await expect(queue.lease(resource, { command: '/no/such/program' }, { ttl: '5m' })).rejects.toThrow('ENOENT');
    await expectCode('INVALID_INPUT', () => queue.lease(resource, { command: '' }, { ttl: '5m' }));
    await expectCode('UNKNOWN_OPTION', () =>
      queue.lease(resource, { command: 'sleep', shell: true } as never, { ttl: '5m' }),
    );
    const { message } = await expectCode('INVALID_DURATION', () => processResource({ grace: '30s' }));
    expect(message).toBe(`grace is "30s"; give milliseconds or a text such as '500ms', '5s', from 0 to 20s.`);
  });
});
