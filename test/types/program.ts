// What a user's editor says: lines that compile, and lines that do not. `types.test.ts` compiles it against the packed
// package with every TypeScript that is supported; it is never run.
/* eslint-disable @typescript-eslint/no-unused-vars -- many values are only asked for their types */
import {
  cancel,
  type Context,
  defineJob,
  type Enqueued,
  fail,
  handle,
  type Job,
  type JobEvent,
  type Json,
  type Queue,
  snooze,
  type When,
} from 'lastout';
import { processResource } from 'lastout/process';

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
/** Compiles where both types are the same. */
declare function same<A, B>(...proof: Equal<A, B> extends true ? [] : [never]): void;

interface Mail {
  to: string;
  cc?: string;
  lines: string[];
}
interface Sent {
  at: string;
  count: number;
}
interface Tree {
  name: string;
  below: Tree[];
}
declare const queue: Queue;
declare const mail: Mail;
declare const mails: Mail[];
declare const tree: Tree;
declare const unknownValue: unknown;

const send = defineJob<Mail, Sent>('send', {});
const grow = defineJob('grow', { run: ({ input }: Context<Tree>) => input.below.length });
const silent = defineJob<Mail, void>('silent', { run: async () => {} });
const names = defineJob<string>('names', { run: ({ input }) => (input === '' ? fail('no name') : input.length) });

export const definitions = [
  defineJob<Mail>('a', { id: (input) => `mail-${input.to}`, subject: (input) => `mail:${input.to}` }),
  defineJob<{ cc: string | undefined }>('b', {}),
  defineJob<Record<string, unknown>>('c', {}),
  defineJob<Tree[], Tree | null>('d', {}),
  defineJob('e', { run: ({ input }) => input }),
  defineJob<Mail, Sent>('g', { run: ({ input }) => (input.to === '' ? snooze('1h') : cancel('no')) }),
  // @ts-expect-error JSON has no Date
  defineJob<Date>('x', {}),
  // @ts-expect-error nor has it one inside
  defineJob<{ when: { at: Date } }>('x', {}),
  // @ts-expect-error no Map
  defineJob<{ all: Map<string, string> }>('x', {}),
  // @ts-expect-error no bigint
  defineJob<bigint[]>('x', {}),
  // @ts-expect-error no function
  defineJob<{ call: () => void }>('x', {}),
  // @ts-expect-error no undefined in a list
  defineJob<(string | undefined)[]>('x', {}),
  // @ts-expect-error no bytes
  defineJob<{ body: Uint8Array }>('x', {}),
  // @ts-expect-error nor as a result
  defineJob<Mail, Date>('x', {}),
  // @ts-expect-error nor as the result of code
  defineJob('x', { run: () => new Set([1]) }),
  // @ts-expect-error nor one that comes later
  defineJob('x', { run: async () => ({ at: new Date() }) }),
  // @ts-expect-error an option that does not exist
  defineJob<Mail>('x', { atempts: 3 }),
];

export const handlers = [
  handle(send, async ({ input }) => ({ at: input.to, count: input.lines.length })),
  handle(send, () => fail('no')),
  handle(silent, async () => {}),
  handle(defineJob<Mail>('open', {}), (): Sent => ({ at: '', count: 1 })),
  handle(defineJob<Mail>('open', {}), () => {}),
  // @ts-expect-error another result
  handle(send, () => 'sent'),
  // @ts-expect-error half of the result
  handle(send, () => ({ at: '' })),
  // @ts-expect-error no result
  handle(send, async () => {}),
  // @ts-expect-error what JSON cannot hold
  handle(defineJob<Mail>('open', {}), () => new Map()),
];

export async function enqueues(): Promise<void> {
  const sent = await queue.enqueue(send, mail, { delay: '5s' });
  same<typeof sent, Enqueued<Sent>>();
  same<Awaited<ReturnType<typeof queue.enqueue<Tree, number, Tree>>>, Enqueued<number>>();
  await queue.enqueue(grow, { name: 'a', below: [{ name: 'b', below: [] }] });
  await queue.enqueue(names, 'a');
  await queue.enqueue('by-name', mail);
  await queue.enqueue('by-name', tree);
  await queue.enqueue('by-name', { cc: undefined, n: 1, list: [null, 'a'] });
  await queue.enqueue('by-name', unknownValue);
  // @ts-expect-error a field is missing
  await queue.enqueue(send, { to: 'a' });
  // @ts-expect-error a field too many
  await queue.enqueue(send, { to: 'a', lines: [], bcc: 'b' });
  // @ts-expect-error another type
  await queue.enqueue(names, 5);
  // @ts-expect-error no input
  await queue.enqueue(names);
  // @ts-expect-error by name, too, JSON has no Date
  await queue.enqueue('by-name', { at: new Date() });
  // @ts-expect-error nor undefined as a whole
  await queue.enqueue('by-name', undefined);
  // @ts-expect-error a duration without a unit
  await queue.enqueue(send, mail, { delay: '5' });
}

export async function batches(): Promise<void> {
  const [a, b, c] = await queue.enqueueMany([
    { type: send, input: mail, options: { priority: 1 } },
    { type: grow, input: tree },
    { type: 'by-name', input: mail },
  ]);
  same<typeof a, Enqueued<Sent>>();
  same<typeof b, Enqueued<number>>();
  same<typeof c, Enqueued<Json>>();
  const all = await queue.enqueueMany(mails.map((input) => ({ type: send, input, options: { ttl: '1h' } })));
  same<(typeof all)[number], Enqueued<Sent>>();
  await queue.enqueueMany(mails.map((input) => ({ type: 'by-name', input })));
  // @ts-expect-error the second has the input of the first
  await queue.enqueueMany([{ type: send, input: mail }, { type: grow, input: mail }]); // biome-ignore format: one line
  // @ts-expect-error one of a list that is made
  await queue.enqueueMany(mails.map((input) => ({ type: grow, input })));
  // @ts-expect-error an option that does not exist
  await queue.enqueueMany([{ type: send, input: mail, options: { dely: 5 } }]);
  // @ts-expect-error by name, too, JSON has no bigint
  await queue.enqueueMany([{ type: 'by-name', input: { n: 1n } }]);
}

export async function reads(id: string, signal: AbortSignal): Promise<void> {
  same<Awaited<ReturnType<typeof read>>, Job<Mail, Sent> | null>();
  const job = await queue.wait(send, id, { timeout: '5s', signal });
  same<typeof job, Job<Mail, Sent>>();
  const count: number | undefined = job.result?.count;
  const plain = await queue.wait(id, { timeout: 5_000 });
  same<typeof plain, Job>();
  same<typeof plain.result, Json>();
  // @ts-expect-error the result has no such field
  void job.result?.length;
  // @ts-expect-error the id is missing
  await queue.get(send);
  // @ts-expect-error first the type
  await queue.wait(id, send);
  void count;
}
const read = () => queue.get(send, 'id');

export async function leases(): Promise<void> {
  const started = await queue.lease(processResource(), { command: 'sleep' }, { ttl: '1h' });
  same<typeof started.info, { readonly pid: number }>();
  const [found] = (await queue.leases.find()).items;
  same<NonNullable<typeof found>['info'], Json>();
}

export async function schedules(): Promise<void> {
  await queue.schedule('nightly', send, mail, { cron: '0 3 * * *', timeZone: 'Europe/Berlin', missed: 'skip' });
  await queue.schedule('often', 'by-name', mail, { every: '5m' });
  const when: When = { every: '1h', missed: 'all' };
  await queue.schedule('hourly', names, 'a', when);
  // @ts-expect-error cron or every
  await queue.schedule('both', names, 'a', { cron: '0 3 * * *', every: '1h' });
  // @ts-expect-error a time zone goes with cron
  await queue.schedule('zone', names, 'a', { every: '1h', timeZone: 'UTC' });
  // @ts-expect-error neither
  await queue.schedule('none', names, 'a', { missed: 'all' });
  // @ts-expect-error another input
  await queue.schedule('other', names, mail, when);
  // @ts-expect-error JSON has no Date
  await queue.schedule('date', 'by-name', new Date(), when);
}

export async function events(): Promise<void> {
  queue.on('progress', ({ id, progress }) => void [id.length, progress.percent, progress.message?.length]);
  queue.on('failed', ({ error, attempt }) => void [error.message, error.code, attempt + 1]);
  queue.on('swept', ({ at }) => at.getTime());
  queue.on('completed', (event: JobEvent) => event.cursor);
  // @ts-expect-error a sweep is about no job
  queue.on('swept', ({ id }) => id.length);
  // @ts-expect-error an event that does not exist
  queue.on('finished', () => undefined);
  for await (const event of queue.events()) {
    const { id, error, progress } = event;
    if (event.name === 'progress') void event.progress.percent;
    if (event.name === 'created') void event.type.length;
    if (event.name === 'retried') void [event.attempt + 1, event.error?.message];
    // @ts-expect-error not every event has one
    void [id.length, error.message];
    // @ts-expect-error only one event has it
    if (event.name === 'claimed') void event.progress.percent;
    void progress?.percent;
  }
}

export async function ends(): Promise<void> {
  await using worker = await queue.work([names, grow, silent, handle(send, () => fail('no'))]);
  await queue[Symbol.asyncDispose]();
  const { finished } = await worker.stop({ grace: '5s' });
  same<typeof finished, number>();
}
