// A real Redis that lets the service read the keys of its leases, and not delete them.
import { Redis } from 'ioredis';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isRedisThere, privateRedis } from './redis.js';
import { stage, until } from './support.js';

/** A user of its own, whose rights on `lease:*` can be taken away and given back. */
async function guardedRedis() {
  const own = await privateRedis();
  const admin = new Redis(own);
  onTestFinished(() => admin.disconnect());
  const may = (rights: string) =>
    admin.call('ACL', 'SETUSER', 'service', 'on', '>secret', 'resetkeys', '~{containerlease}:*', rights, '&*', '+@all');
  await may('~lease:*');
  const url = new URL(own);
  url.username = 'service';
  url.password = 'secret';
  return { admin, url: url.href, refuseDelete: () => may('%R~lease:*'), allowDelete: () => may('~lease:*') };
}

describe.skipIf(!isRedisThere)('a lease whose key Redis does not delete', () => {
  test('002-31 the error is logged, it is marked for manual cleanup, and the mark goes when it can be deleted', async () => {
    const { admin, url, refuseDelete, allowDelete } = await guardedRedis();
    const it = await stage({ store: url });
    const address = await it.app.start();
    const { id } = await it.provision(5);
    await refuseDelete();
    const asked = async (path: string): Promise<unknown> => (await fetch(`${address}${path}`)).json();
    const marks = async () => ((await asked('/api/manual-cleanup')) as { containers: object[] }).containers;
    const failures = () => it.said('cleanup failed, it is tried again at the next tick');
    const goOnUntil = (what: string, isSo: () => boolean | Promise<boolean>) =>
      until(what, async () => {
        await it.clock.advance('1s');
        return isSo();
      });

    const cleaning = async () => (await it.queue.find({ type: 'cleanup', state: 'processing' })).items.length > 0;

    await it.clock.advance('5m');
    await goOnUntil('the end of the tick', async () => it.cleanups().length > 0 && !(await cleaning()));
    expect(it.docker.containers.has(id)).toBe(false);
    const reason = expect.stringContaining('NOPERM') as unknown;
    expect(failures()).toMatchObject([{ level: 'error', container_id: id, step: 'lease', error: reason }]);
    expect(it.cleanups().map(({ status, attempt }) => [status, attempt])).toEqual([
      ['failure', 1],
      ['failure', 2],
      ['failure', 3],
    ]);
    expect(await marks()).toMatchObject([{ containerID: id, needsManualCleanup: true, reason }]);
    expect(await asked(`/api/containers/${id}/status`)).toMatchObject({ needsManualCleanup: true, reason });
    // The record is still there for the next tick, and the key for whoever looks.
    expect(await it.queue.get(`lease:${id}`)).not.toBeNull();
    expect(await admin.exists(`lease:${id}`)).toBe(1);

    // Later ticks leave one mark, not many.
    await goOnUntil('another tick', () => failures().length > 1);
    expect(await marks()).toHaveLength(1);
    await allowDelete();
    await goOnUntil('the deletion', async () => (await it.queue.get(`lease:${id}`)) === null);
    expect(await admin.exists(`lease:${id}`)).toBe(0);
    expect(await marks()).toEqual([]);
    expect(it.cleanups().at(-1)).toMatchObject({ container_id: id, status: 'success' });
  });
});
