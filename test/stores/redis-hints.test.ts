// Hints between processes on Redis: they arrive, an echo of one's own does not, and nothing depends on them.
import { expect, it } from 'vitest';
import type { Hint, Store } from '../../src/core/store.js';
import { redisStore } from '../../src/stores/redis/index.js';
import { describeOn } from '../engines.js';
import { emptyRedis, privateRedis } from '../services.js';
import { eventually, killAll, newJob, openStore, plainClient, system } from './redis-support.js';

/** What a store hears from the moment on at which it hears anything at all. */
async function hearing(store: Store): Promise<Hint[]> {
  const heard: Hint[] = [];
  store.subscribe((hint) => heard.push(hint));
  await eventually('it listens', () => heard.length > 0);
  heard.length = 0;
  return heard;
}
const kindsOf = (hints: readonly Hint[]): string[] => hints.map(({ kind }) => kind);

describeOn('redis', 'hints on Redis', () => {
  it('reach another process: what is ready, what comes later, a pause', async () => {
    const url = await emptyRedis();
    const [one, two] = [await openStore({ url }), await openStore({ url })];
    const heard = await hearing(two);
    await one.insert([newJob()], { atomic: false });
    await eventually('ready', () => heard.some((hint) => hint.kind === 'ready' && hint.types.has('mail')));
    await one.insert([newJob({ type: 'sms', when: { inMs: 50 } })], { atomic: false });
    await eventually('later', () => heard.some((hint) => hint.kind === 'later' && hint.inMs <= 50));
    await one.pause('default', true);
    await eventually('pause', () => kindsOf(heard).includes('pause'));
  });

  it('are given once in the process that causes them, to every queue that shares its store', async () => {
    const url = await emptyRedis();
    const factory = redisStore({ url });
    const context = { system, namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY };
    const [one, two] = [await factory.open(context), await factory.open(context)];
    const other = await openStore({ url });
    const [mine, others] = [await hearing(one), await hearing(other)];
    const shared: Hint[] = [];
    two.subscribe((hint) => shared.push(hint));
    await one.pause('default', true);
    await eventually('the others hear it', () => kindsOf(others).includes('pause'));
    await other.pause('elsewhere', true); // whatever came before has arrived with it
    // Whoever begins to listen also says that something may have been missed.
    const pausesIn = (hints: readonly Hint[]): number => kindsOf(hints).filter((kind) => kind === 'pause').length;
    await eventually('and they hear the others', () => pausesIn(mine) >= 2 && pausesIn(shared) >= 2);
    expect([pausesIn(mine), pausesIn(shared)]).toEqual([2, 2]);
    await one.close();
    await two.close();
  });

  // A server has one set of channels for all its databases.
  it('stay within their database, also where the same namespace is in another one', async () => {
    const server = await privateRedis();
    const [here, there] = [`${server.url}/0`, `${server.url}/1`];
    const [one, same, other] = [
      await openStore({ url: here }),
      await openStore({ url: here }),
      await openStore({ url: there }),
    ];
    const [heard, elsewhere] = [await hearing(same), await hearing(other)];
    await one.insert([newJob()], { atomic: false });
    await eventually('its own', () => kindsOf(heard).includes('ready'));
    await plainClient(server.url).publish('{lastout}:hints', '1/someone p'); // whatever came before has arrived with it
    await eventually('its own', () => kindsOf(elsewhere).includes('pause'));
    expect(kindsOf(elsewhere)).toEqual(['pause']);
  });

  it('stay within their namespace', async () => {
    const url = await emptyRedis();
    const one = await openStore({ url }, { namespace: 'one' });
    const two = await openStore({ url }, { namespace: 'two' });
    const three = await openStore({ url }, { namespace: 'two' });
    const heard = await hearing(two);
    await one.pause('one', true);
    await three.insert([newJob()], { atomic: false });
    await eventually('its own', () => kindsOf(heard).includes('ready'));
    expect(kindsOf(heard)).not.toContain('pause');
  });

  it('are heard again after the connection was lost, and whatever was missed meanwhile is looked for', async () => {
    const server = await privateRedis();
    const [one, two] = [await openStore({ url: server.url }), await openStore({ url: server.url })];
    const heard = await hearing(two);
    await killAll(plainClient(server.url), server.url);
    await eventually('anything may have been missed', () => kindsOf(heard).includes('ready'));
    expect(kindsOf(heard)).toEqual(['ready', 'cancel', 'events']);
    heard.length = 0;
    await one.pause('default', true);
    await eventually('it hears', () => kindsOf(heard).includes('pause'));
  });

  it('that cannot be read are passed over', async () => {
    const url = await emptyRedis();
    const store = await openStore({ url });
    const heard = await hearing(store);
    const asking = plainClient(url);
    const database = new URL(url).pathname.slice(1);
    for (const payload of ['', ' ', 'nonsense', 'someone x:1 l:soon', 'someone r:mail']) {
      await asking.publish('{lastout}:hints', payload === '' ? '' : `${database}/${payload}`);
    }
    await eventually('the last', () => heard.length > 0);
    expect(heard).toEqual([{ kind: 'ready', types: new Set(['mail']) }]);
  });
});
