/** A program with nothing else to do than to await one answer after the other: `node awaited-child.js URL`. */
import { defineJob, defineResource, open, type Queue } from '../src/index.js';

const [url = ''] = process.argv.slice(2);
const type = defineJob('short', { run: () => undefined });
const writing = defineJob('writing', {
  async run({ artifact }) {
    await artifact.put('a.txt', 'a');
  },
});
const box = defineResource<null>('box', {
  create: async (_, { name }) => name,
  destroy: async () => undefined,
  list: async () => [],
});
const queue = await open(url, { artifacts: 'memory', resources: [box] });
queue.defineSubject('trip', { check: async (ids) => ids.map(() => 'present' as const), every: '1h' });

const refusal = (error: unknown): unknown => error;
const id = 'a-job';
let artifact = '';
let worker: Awaited<ReturnType<Queue['work']>>;
let lease: Awaited<ReturnType<Queue['lease']>>;
const calls: { readonly [name: string]: () => Promise<unknown> } = {
  stopPeriodicCleanup: () => queue.stopPeriodicCleanup(),
  health: () => queue.health(),
  enqueue: () => queue.enqueue('job', null, { id }),
  enqueueMany: () => queue.enqueueMany([{ type: 'job', input: null }]),
  get: () => queue.get(id),
  find: () => queue.find(),
  logs: () => queue.logs(id),
  explain: () => queue.explain(id),
  reschedule: () => queue.reschedule(id, { delay: '1h' }),
  hold: () => queue.hold(id, 'for a while'),
  release: () => queue.release(id),
  cancel: () => queue.cancel(id),
  retry: () => queue.retry(id),
  remove: () => queue.remove(id),
  pause: () => queue.pause('mail'),
  resume: () => queue.resume('mail'),
  schedule: () => queue.schedule('hourly', type, null, { every: '1h' }),
  schedules: () => queue.schedules(),
  unschedule: () => queue.unschedule('hourly'),
  async runUntilIdle() {
    await queue.enqueue(writing, null, { id: 'writing' });
    await queue.runUntilIdle([writing]);
  },
  'artifacts.list': () => queue.artifacts.list('writing'),
  'artifacts.get': async () => (artifact = (await queue.artifacts.get('writing', 'a.txt'))!.id),
  'artifacts.byLink': () => queue.artifacts.byLink('none'),
  'artifacts.read': () => queue.artifacts.read(artifact),
  'artifacts.remove': () => queue.artifacts.remove(artifact),
  lease: async () => (lease = await queue.lease(box, null, { ttl: '1h', subject: 'trip:1' })),
  'lease.renew': () => lease.renew('2h'),
  'leases.find': () => queue.leases.find(),
  'leases.retry': () => queue.leases.retry(lease.id).catch(refusal), // it is held
  'leases.force': () => queue.leases.force(lease.id, 'it is gone').catch(refusal),
  'lease.release': async () => (await queue.lease(box, null, { ttl: '1h' })).release(),
  sweepSubjects: () => queue.sweepSubjects('trip'),
  endSubject: () => queue.endSubject('trip:1', 'it is over'),
  liftSubject: () => queue.liftSubject('trip:1'),
  stats: () => queue.stats(),
  sweep: () => queue.sweep(),
  plan: () => queue.plan(),
  audit: () => queue.audit(),
  ledger: () => queue.ledger(),
  metrics: () => queue.metrics(),
  alerts: () => queue.alerts(),
  work: async () => (worker = await queue.work([type], { unref: true })),
  async wait() {
    await queue.enqueue(type, null, { id: 'awaited', delay: '300ms' });
    await queue.wait('awaited');
  },
  async events() {
    const events = queue.events();
    await queue.enqueue(type, null, { delay: '300ms' });
    for await (const { name } of events) if (name === 'completed') break;
  },
  'worker.stop': () => worker.stop(),
  close: () => queue.close(),
};

/** What was under way before is over, and nothing but the call to come can keep this process alive. */
async function idle(): Promise<void> {
  do await new Promise((resolve) => setTimeout(resolve, 20));
  while (process.getActiveResourcesInfo().some((name) => !isOfOutput(name)));
}
const isOfOutput = (name: string): boolean => name === 'PipeWrap' || name === 'TTYWrap';

for (const [name, call] of Object.entries(calls)) {
  await idle();
  await call();
  process.stdout.write(`${name} `);
}
const asked = new Set(Object.keys(calls).map((name) => name.split('.')[0]));
const answersAtOnce = new Set(['on', 'startPeriodicCleanup', 'defineSubject']);
process.stdout.write(
  `not asked: ${Object.keys(queue)
    .filter((name) => !asked.has(name) && !answersAtOnce.has(name))
    .join(' ')}`,
);
