// A queue with a lease that is over and one that is held, on a store that is about to refuse every write.
import { expect } from 'vitest';
import { open, type OpenOptions } from '../../src/index.js';
import { provider } from '../leases-support.js';
import type { Afterwards } from '../engines.js';
import { closedAfterwards } from '../support.js';

export type Where = Parameters<typeof open>[0];

export async function eventually(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  withinMs = 45_000,
): Promise<void> {
  const until = performance.now() + withinMs;
  while (!(await isSo())) {
    if (performance.now() > until) expect.fail(`Waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export function recorded() {
  const lines: string[] = [];
  const put = (message: string, fields?: object): void => void lines.push(`${message} ${JSON.stringify(fields)}`);
  return { lines, logger: { debug: put, info: put, warn: put, error: put } };
}

/**
 * A queue with two leases: one that is over in a second, and one that is held for an hour. Each test mostly waits, so those of
 * a file run at once; vitest then knows only by the test's own `afterwards` whose end is meant.
 */
export async function leased(where: Where, afterwards: Afterwards, options: OpenOptions = {}) {
  const room = provider();
  const { logger, lines } = recorded();
  const queue = closedAfterwards(await open(where, { resources: [room.resource], logger, ...options }), afterwards);
  const held = await queue.lease(room.resource, { size: 2 }, { ttl: '1h' });
  const brief = await queue.lease(room.resource, { size: 1 }, { ttl: '1s' });
  return { room, queue, held, brief, lines };
}
export type Leased = Awaited<ReturnType<typeof leased>>;

const destroyedBy = ({ lines, brief }: Leased): string[] =>
  lines.filter((line) => line.startsWith('A lease is over and was ended, though') && line.includes(brief.id));
const firing = async ({ queue }: Leased): Promise<string[]> =>
  (await queue.alerts()).filter(({ state }) => state === 'firing').map(({ rule }) => rule);
const codes = async ({ queue }: Leased): Promise<string[]> => (await queue.health()).warnings.map(({ code }) => code);

/** Destroyed once, while nothing is written; the one that is held stays. */
export async function expectDestroyed(it: Leased): Promise<void> {
  const { room, queue, held, brief } = it;
  await eventually('its end', () => room.names().length === 1);
  expect(room.names()).toEqual([held.name]);
  expect(room.destroyed).toEqual([{ name: brief.name, info: { size: 1, epoch: 0, jobId: null }, attempt: 1 }]);
  await eventually('the word of it', () => destroyedBy(it).length === 1);
  expect((await queue.health()).ok).toBe(false);
  expect(await codes(it)).toContain('LEASES_ENDED_UNWRITTEN');
}

/** Three looks later it is still there, and somebody was told. */
export async function expectKept(it: Leased): Promise<void> {
  const { room, queue, held, brief } = it;
  await eventually('the alert', async () => (await firing(it)).includes('leasesNeedAttention'));
  const alert = (await queue.alerts()).find(({ rule }) => rule === 'leasesNeedAttention');
  expect(alert?.evidence).toEqual([brief.id]);
  expect(await codes(it)).toContain('LEASES_KEPT');
  expect(it.lines.filter((line) => line.startsWith('Leases are over and nothing can be written'))).toHaveLength(1);
  await new Promise((resolve) => setTimeout(resolve, 11_000));
  expect(room.names().toSorted()).toEqual([held.name, brief.name].toSorted());
}

/** When writes return the ordinary ending comes, and nothing is left. */
export async function expectEnded(it: Leased): Promise<void> {
  const { room, queue, held, brief } = it;
  expect(await queue.wait(brief.id, { timeout: '40s' })).toMatchObject({ state: 'completed' });
  expect(room.names()).toEqual([held.name]);
  await eventually('good health', async () => (await codes(it)).every((code) => !code.startsWith('LEASES_')));
  expect((await queue.stats()).leftBehind).toBe(0);
  expect(await firing(it)).toEqual([]);
  await held.renew('2h'); // it was never touched
}
