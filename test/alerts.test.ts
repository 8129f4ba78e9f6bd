// Alerts: each rule fires and clears, what comes between is held, and who is to be told is told.
import { describe, expect, it, onTestFinished } from 'vitest';
import { type Alert, type AlertOptions, defineJob, memoryStore, open } from '../src/index.js';
import { ruleNames, rules } from '../src/observe/rules.js';
import { fakeClock } from '../src/testing/index.js';
import { cases, endWorld, worldOn } from './alerts/cases.js';
import { closeUnder, eachStore, expectCode, gate, recordingLogger } from './support.js';

describe('alerts: each rule of the table', () => {
  eachStore((on) => {
    it.each(ruleNames)('%s becomes pending, fires and clears', async (name) => {
      const trial = cases[name];
      expect(trial, `the rule ${name} has no case in test/alerts/cases.ts`).toBeDefined();
      const clock = fakeClock();
      const world = await worldOn(on.factory(), clock, trial.options);
      onTestFinished(() => endWorld(world));
      const seen = async (): Promise<Alert | undefined> =>
        (await world.queue.alerts()).find(({ id }) => id === trial.id);
      expect(await seen()).toBeUndefined();

      await trial.make(world);
      const { pendingMs, severity } = rules[name];
      if (pendingMs > 0) {
        expect(await seen()).toMatchObject({ rule: name, severity, state: 'pending', since: clock.now() });
        await clock.advance(pendingMs - 1);
        expect(await seen()).toMatchObject({ state: 'pending' });
        await clock.advance(1);
      }
      const fired = await seen();
      expect(fired).toMatchObject({ id: trial.id, rule: name, severity, state: 'firing', since: clock.now() });
      expect(fired!.message).toMatch(trial.says);
      const [, queueName] = trial.id.split(':');
      const shown = queueName === undefined ? 0 : 1;
      if (queueName !== undefined) expect(fired!.evidence[0]).toBe(queueName);
      if (trial.ids) expect(fired!.evidence.length).toBeGreaterThan(shown);
      expect(fired!.evidence.length).toBeLessThanOrEqual(11);

      await trial.mend(world);
      const cleared = await seen();
      expect(cleared).toMatchObject({ id: trial.id, state: 'cleared', since: clock.now() });
      expect(cleared!.message).toMatch(/^No longer: /);
      await clock.advance('15m');
      expect((await seen())?.state).not.toBe('cleared');
    });
  });
});

describe('alerts: jobs that were replaced', () => {
  eachStore((on) => {
    it('are told by an event of their own, and no failures', async () => {
      const { queue, clock } = await on.still();
      const told: string[] = [];
      await queue.alerts(); // looks at endings from here on
      for (const name of ['replaced', 'failed'] as const)
        queue.on(name, ({ error }) => told.push(`${name} ${error?.code}`));
      for (let n = 0; n < 20; n++) await queue.enqueue('build', n, { deduplication: 'replace' });
      await clock.advance('2m');
      expect((await queue.alerts()).map(({ rule }) => rule)).not.toContain('failureRate');
      expect(told).toEqual(Array(19).fill('replaced REPLACED'));
      expect((await queue.stats()).total).toMatchObject({ pending: 1, failed: 19, replaced: 19 });
      expect(await queue.audit()).toMatchObject({ clean: true, counts: [] });
    });
  });
});

describe('alerts: an alert', () => {
  const job = defineJob('job', { run: () => undefined });

  it('that does not last is dropped without a word', async () => {
    const clock = fakeClock();
    const told: Alert[] = [];
    const queue = await open('memory:', { clock, alerts: { notify: [(alert) => told.push(alert)] } });
    const { id } = await queue.enqueue(job, null);
    await clock.advance('31s');
    expect(await queue.alerts()).toMatchObject([{ rule: 'noWorkers', state: 'pending' }]);
    await queue.cancel(id);
    expect(await queue.alerts()).toEqual([]);
    expect(told).toEqual([]);
    await closeUnder(clock, queue);
  });

  it('of a value between the two thresholds stays as it is', async () => {
    const clock = fakeClock();
    const queue = await open('memory:', {
      clock,
      alerts: { rules: { noWorkers: { above: 2, clear: 1, pending: 0 } } },
    });
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) ids.push((await queue.enqueue(job, null)).id);
    const state = async () => (await queue.alerts()).find(({ rule }) => rule === 'noWorkers')?.state;
    expect(await state()).toBe('firing');
    await queue.cancel(ids[0]!);
    expect(await state()).toBe('firing');
    await queue.cancel(ids[1]!);
    expect(await state()).toBe('cleared');
    await queue.enqueue(job, null);
    expect(await state()).toBe('cleared');
    await queue.enqueue(job, null);
    expect(await state()).toBe('firing');
    await closeUnder(clock, queue);
  });

  it('is not cleared by a store that does not answer', async () => {
    const clock = fakeClock();
    const world = await worldOn(memoryStore(), clock);
    await world.queue.enqueue(job, null);
    await clock.advance('11m');
    expect(await world.queue.alerts()).toMatchObject([
      { rule: 'oldJobs', state: 'firing' },
      { rule: 'noWorkers' },
      { rule: 'nobodyTakes', state: 'firing' },
    ]);
    world.failing.tally = true;
    const blind = await world.queue.alerts();
    expect(blind.map(({ rule, state }) => `${rule} ${state}`)).toEqual([
      'oldJobs firing',
      'noWorkers pending',
      'nobodyTakes firing',
      'storeUnreachable pending',
    ]);
    world.failing.tally = false;
    await endWorld(world);
  });

  it('of old jobs says backlog where jobs of the queue run, and paused where it is', async () => {
    const clock = fakeClock();
    const queue = await open('memory:', { clock });
    const leave = gate();
    const slow = defineJob('job', { run: () => leave.opened });
    await queue.enqueue(slow, null);
    await queue.enqueue(slow, null);
    const worker = await queue.work([slow], { concurrency: 1 });
    await clock.advance('11m');
    const message = async () => (await queue.alerts()).find(({ rule }) => rule === 'oldJobs')?.message;
    expect(await message()).toMatch(/backlog: 1 runs, and more come than get done/);
    await queue.pause('default');
    expect(await message()).toMatch(/stalled: the queue is paused/);
    leave.open();
    await worker.stop();
    await closeUnder(clock, queue);
  });

  it('is of one queue: trouble in another is another alert', async () => {
    const clock = fakeClock();
    const queue = await open('memory:', { clock });
    await queue.enqueue(job, null);
    await queue.enqueue(job, null, { queue: 'mails' });
    expect((await queue.alerts()).map(({ id }) => id)).toEqual(['noWorkers:default', 'noWorkers:mails']);
    await closeUnder(clock, queue);
  });

  it('of a rule is one of at most a hundred', async () => {
    const clock = fakeClock();
    const queue = await open('memory:', { clock });
    for (let n = 0; n < 120; n++) await queue.enqueue(job, null, { queue: `q${n}` });
    expect((await queue.alerts()).filter(({ rule }) => rule === 'noWorkers')).toHaveLength(100);
    await closeUnder(clock, queue);
  });
});

describe('alerts: sweeps for orphans', () => {
  type Presence = 'present' | 'absent';

  /** Two kinds: of the trips the test decides, the drivers are well. */
  async function swept(count: number) {
    const clock = fakeClock();
    const queue = await open('memory:', { clock });
    const trips = { answer: async (): Promise<Presence> => 'present' };
    const every = { every: '2m', confirm: 1 } as const;
    queue.defineSubject('trip', { ...every, check: async (ids) => Promise.all(ids.map(trips.answer)) });
    queue.defineSubject('driver', { ...every, check: async (ids) => ids.map(() => 'present') });
    for (let n = 0; n < count; n++) await queue.enqueue('ride', null, { subject: `trip:${n}` });
    await queue.enqueue('ride', null, { subject: 'driver:1' });
    const failing = async () => (await queue.alerts()).find(({ rule }) => rule === 'cleanupFailing');
    return { queue, clock, trips, failing };
  }

  it('that fail are cleanup service failures, and are cleared by one that goes well', async () => {
    const { queue, clock, trips, failing } = await swept(1);
    await clock.advance('3m');
    expect(await failing()).toBeUndefined();
    trips.answer = () => Promise.reject(new Error('the database is away'));
    await clock.advance('3m');
    const fired = await failing();
    expect(fired).toMatchObject({ state: 'firing', evidence: ['trip'] });
    expect(fired!.message).toMatch(/^Cleanup service failures: /);
    trips.answer = async () => 'present';
    await clock.advance('3m');
    expect(await failing()).toMatchObject({ state: 'cleared' });
    expect((await queue.stats()).total.pending).toBe(2);
    await closeUnder(clock, queue);
  });

  it('that the brake stops are an alert until it is seen to', async () => {
    const { queue, clock, trips, failing } = await swept(25);
    trips.answer = async () => 'absent';
    await clock.advance('3m');
    expect(await failing()).toMatchObject({ state: 'firing', evidence: ['trip'] });
    expect((await queue.alerts()).map(({ rule }) => rule)).toContain('manyOrphans');
    expect((await queue.stats()).total.pending).toBe(26);
    trips.answer = async () => 'present';
    await clock.advance('3m');
    const states = (await queue.alerts()).filter(({ rule }) => rule === 'cleanupFailing' || rule === 'manyOrphans');
    expect(states.map(({ state }) => state)).toEqual(['cleared', 'cleared']);
    await closeUnder(clock, queue);
  });
});

describe('alerts: who is told', () => {
  const job = defineJob('job', { run: () => undefined });

  it('by the rhythm, once when it fires and once when it is cleared: functions, the log and listeners', async () => {
    const clock = fakeClock();
    const { lines, logger } = recordingLogger();
    const told: Alert[] = [];
    const notify: AlertOptions['notify'] = ['log', (alert) => told.push(alert)];
    const queue = await open('memory:', {
      ...{ clock, logger, alerts: { every: '10s', notify, rules: { nobodyTakes: false } } },
    });
    const heard: unknown[] = [];
    queue.on('alert', ({ name, id, error }) => heard.push({ name, id, error }));
    await queue.enqueue(job, null);
    await clock.advance('2m');
    const worker = await queue.work([job]);
    await clock.advance('1m');
    await worker.stop();
    expect(told.map(({ id, state }) => `${id} ${state}`)).toEqual([
      'noWorkers:default firing',
      'noWorkers:default cleared',
    ]);
    const logged = lines.filter(({ fields }) => fields && 'alert' in fields);
    expect(logged.map(({ level, message }) => ({ level, message }))).toEqual([
      { level: 'error', message: told[0]!.message },
      { level: 'info', message: told[1]!.message },
    ]);
    expect(heard).toEqual(
      told.map(({ id, message }) => ({ name: 'alert', id, error: { code: 'noWorkers', message } })),
    );
    await closeUnder(clock, queue);
  });

  it('a function that throws or rejects is logged, and the others are told', async () => {
    const clock = fakeClock();
    const { lines, logger } = recordingLogger();
    const told: Alert[] = [];
    const notify = [
      () => { throw new Error('thrown'); },
      () => Promise.reject(new Error('rejected')),
      (alert: Alert) => told.push(alert),
    ]; // biome-ignore format: one function a line
    const rulesOf = { noWorkers: { pending: 0 } };
    const queue = await open('memory:', { clock, logger, alerts: { every: '1s', notify, rules: rulesOf } });
    await queue.enqueue(job, null);
    await clock.advance('1s');
    expect(told).toHaveLength(1);
    const errors = lines.filter(({ message }) => message === 'A notifier of alerts threw');
    expect(errors.map(({ fields }) => fields)).toEqual([{ error: 'thrown' }, { error: 'rejected' }]);
    await closeUnder(clock, queue);
  });

  it('without the option nobody is, and nothing is looked at until somebody asks', async () => {
    const clock = fakeClock();
    const world = await worldOn(memoryStore(), clock);
    world.failing.tally = true;
    await clock.advance('5m');
    world.failing.tally = false;
    expect(await world.queue.alerts()).toEqual([]);
    await endWorld(world);
  });
});

describe('alerts: the options', () => {
  const refused: [string, unknown, string][] = [
    ['an unknown option', { evry: '10s' }, 'UNKNOWN_OPTION'],
    ['an unknown rule', { rules: { oldJob: {} } }, 'UNKNOWN_OPTION'],
    ['an unknown part of a rule', { rules: { oldJobs: { over: 1 } } }, 'UNKNOWN_OPTION'],
    ['a threshold that is no number', { rules: { oldJobs: { above: '10m' } } }, 'INVALID_LIMIT'],
    ['a threshold that is negative', { rules: { oldJobs: { above: -1 } } }, 'INVALID_LIMIT'],
    ['clear above above', { rules: { oldJobs: { above: 5, clear: 6 } } }, 'INVALID_LIMIT'],
    ['pending that is no duration', { rules: { oldJobs: { pending: 'soon' } } }, 'INVALID_DURATION'],
    ['a rhythm below a second', { every: 999 }, 'INVALID_DURATION'],
    ['notify that is no list', { notify: 'log' }, 'UNKNOWN_OPTION'],
    ['too many to notify', { notify: Array(21).fill('log') }, 'UNKNOWN_OPTION'],
    ['a notifier of another name', { notify: ['mail'] }, 'UNKNOWN_OPTION'],
    ['an unknown option of a webhook', { notify: [{ webhook: 'http://a.example', url: 1 }] }, 'UNKNOWN_OPTION'],
    ['a webhook that is no address', { notify: [{ webhook: 'a.example' }] }, 'INVALID_URL'],
    ['a webhook of another scheme', { notify: [{ webhook: 'file:///etc/passwd' }] }, 'INVALID_URL'],
    ['a webhook with a password', { notify: [{ webhook: 'https://ann:secret@a.example' }] }, 'INVALID_URL'],
    ['headers that are none', { notify: [{ webhook: 'http://a.example', headers: { 'a b': '' } }] }, 'UNKNOWN_OPTION'],
    ['a time-out above a minute', { notify: [{ webhook: 'http://a.example', timeout: '2m' }] }, 'INVALID_DURATION'],
    ['alerts that are no object', true, 'UNKNOWN_OPTION'],
  ];
  it.each(refused)('%s is refused', async (_what, alerts, code) => {
    const { message } = await expectCode(code as never, () => open('memory:', { alerts: alerts as never }));
    expect(message).not.toContain('secret');
  });

  it('a notifier of another name is told what there is, and not repeated: it may be an address', async () => {
    const notify = ['https://hooks.example/secret'] as never;
    const { message } = await expectCode('UNKNOWN_OPTION', () => open('memory:', { alerts: { notify } }));
    expect(message).toMatch(/is a text that is not 'log'; give 'log', a function or \{ webhook/);
  });

  it('a threshold below a minute is told in seconds', async () => {
    const clock = fakeClock();
    const queue = await open('memory:', { clock, alerts: { rules: { noWorkers: false, oldJobs: { above: 1_000 } } } });
    await queue.enqueue('job', null);
    await clock.advance('2500ms');
    expect((await queue.alerts())[0]!.message).toMatch(/^Jobs older than 1 second: .* has waited 2\.5 seconds;/);
    await closeUnder(clock, queue);
  });

  it('a rule that is off finds nothing, and the threshold of a rule is in its words', async () => {
    const clock = fakeClock();
    const rulesOf = { noWorkers: false, nobodyTakes: false, oldJobs: { above: 60_000 } } as const;
    const queue = await open('memory:', { clock, alerts: { rules: rulesOf } });
    await queue.enqueue('job', null);
    await clock.advance('2m');
    const [alert, ...others] = await queue.alerts();
    expect(others).toEqual([]);
    expect(alert).toMatchObject({ rule: 'oldJobs', message: expect.stringMatching(/^Jobs older than 1 minute:/) });
    await closeUnder(clock, queue);
  });
});
