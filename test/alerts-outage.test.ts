// storeUnreachable: it fires when the store has been silent for as long as the rule says, however long a call of the store waits.
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Alert, type AlertOptions, LastoutError, open } from '../src/index.js';
import { fakeClock } from '../src/testing/index.js';
import { describeOn } from './engines.js';
import { privatePostgres, privateRedis } from './services.js';
import { closedAfterwards, closeUnder, eachStore, gate, tapped } from './support.js';

const away = (): never => {
  throw new LastoutError('STORE_UNAVAILABLE', 'It cannot be reached.');
};

eachStore((on) => {
  /** A queue whose store, while it is silent, lets each call wait for so long before it fails. */
  async function outage(options: AlertOptions, silentMs: number) {
    const clock = fakeClock();
    const told: { readonly state: string; readonly at: number }[] = [];
    const waiting = new Set<() => void>();
    let silent = false;
    const heal = (): void => {
      silent = false;
      for (const answer of waiting) answer();
    };
    const store = tapped(on.factory(), ({ tally }) => ({
      async tally(request) {
        if (!silent) return tally(request);
        await new Promise<void>((resolve) => {
          waiting.add(resolve);
          clock.timer(silentMs, resolve);
        });
        return silent ? away() : tally(request);
      },
    }));
    const note = ({ rule, state }: Alert): void => {
      if (rule === 'storeUnreachable') told.push({ state, at: clock.monotonic() });
    };
    const queue = await open(store, { clock, alerts: { ...options, notify: [note] } });
    onTestFinished(() => {
      heal();
      return closeUnder(clock, queue);
    });
    await clock.settle();
    const begin = async (): Promise<number> => {
      await clock.advance(options.every ?? '30s'); // it has looked once, and all was well
      silent = true;
      return clock.monotonic();
    };
    return { clock, told, heal, queue, begin };
  }

  const brief: AlertOptions = { every: '1s', rules: { storeUnreachable: { pending: '5s' } } };

  it.each([0, 3_000, 4_000, 14_000])(
    'an outage of 9 s, calls failing after %i ms: it fires after the look and its pending time, and clears',
    async (silentMs) => {
      const { clock, told, heal, begin } = await outage(brief, silentMs);
      const at = await begin();
      await clock.advance(5_999);
      expect(told).toEqual([]);
      await clock.advance(1_001);
      expect(told).toMatchObject([{ state: 'firing' }]);
      expect(told[0]!.at - at).toBeLessThanOrEqual(7_000);
      await clock.advance(2_000);
      heal();
      await clock.advance('20s');
      expect(told.map((one) => one.state)).toEqual(['firing', 'cleared']);
    },
  );

  it.each([0, 4_000, 14_000])('by the times of the table, calls failing after %i ms: within 61 s', async (silentMs) => {
    const { clock, told, begin } = await outage({}, silentMs);
    const at = await begin();
    await clock.advance(59_999);
    expect(told).toEqual([]);
    await clock.advance(1_001);
    expect(told.map((one) => [one.state, one.at - at <= 61_000])).toEqual([['firing', true]]);
  });

  it('an outage that is shorter than its pending time is dropped without a word', async () => {
    const { clock, told, heal, queue, begin } = await outage(brief, 3_000);
    await begin();
    await clock.advance('5s');
    heal();
    await clock.advance('10s');
    expect(told).toEqual([]);
    expect(await queue.alerts()).toEqual([]);
  });

  it('one slow look is no outage', async () => {
    const { clock, told, heal, begin } = await outage(
      { every: '1s', rules: { storeUnreachable: { pending: 0 } } },
      4_900,
    );
    await begin();
    await clock.advance('2s');
    heal();
    await clock.advance('10s');
    expect(told).toEqual([]);
  });
});

describe('storeUnreachable with a server that is down for 9 s', () => {
  const servers = { postgres: () => privatePostgres({ durable: false }), redis: () => privateRedis() };
  for (const engine of ['postgres', 'redis'] as const)
    describeOn(engine, engine, () => {
      it('fires before it is up again, and clears then', async () => {
        const server = await servers[engine]();
        const fired = gate<Alert>();
        const cleared = gate<Alert>();
        const notify = (alert: Alert): void => {
          if (alert.rule === 'storeUnreachable') (alert.state === 'firing' ? fired : cleared).open(alert);
        };
        const rules = { storeUnreachable: { pending: '5s' } } as const;
        closedAfterwards(await open(server.url, { alerts: { every: '1s', rules, notify: [notify] } }));
        const at = performance.now();
        await server.stop();
        expect(await fired.opened).toMatchObject({ severity: 'critical' });
        expect(performance.now() - at).toBeLessThan(9_000);
        await server.start();
        expect(await cleared.opened).toMatchObject({ state: 'cleared' });
      });
    });
});
