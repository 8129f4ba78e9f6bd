// Schemas of three libraries: what they let through is what is stored and what handlers get, and the types say so.
import { type } from 'arktype';
import * as v from 'valibot';
import { describe, expect, expectTypeOf, it } from 'vitest';
import { z } from 'zod';
import {
  type Context,
  defineJob,
  type Definition,
  type Enqueued,
  handle,
  type JobType,
  type Json,
  type Queue,
  type StandardSchema,
} from '../src/index.js';
import { eachStore, expectCode } from './support.js';

interface Trip {
  stops: { name: string; minutes: number }[];
}

const schemas: Record<string, StandardSchema<unknown, Trip>> = {
  zod: z.object({ stops: z.array(z.object({ name: z.string(), minutes: z.number().min(0) })) }),
  valibot: v.object({
    stops: v.array(v.object({ name: v.string(), minutes: v.pipe(v.number(), v.minValue(0)) })),
  }),
  arktype: type({ stops: type({ name: 'string', minutes: 'number >= 0' }).array() }),
};

const good: Trip = { stops: [{ name: 'Zoo', minutes: 5 }] };

describe.each(Object.entries(schemas))('a schema of %s', (vendor, schema) => {
  eachStore((on) => {
    it('lets a right input through, to the store and to the handler', async () => {
      const queue = await on.open();
      const trip = defineJob('trip', {
        input: schema,
        run: ({ input, job }) => {
          expectTypeOf(input).toEqualTypeOf<Trip>();
          expectTypeOf(job.input).toEqualTypeOf<Trip>();
          return input.stops.map((stop) => stop.name);
        },
      });
      await queue.work([trip]);
      const { id } = await queue.enqueue(trip, good);
      expect(await queue.wait(id)).toMatchObject({ input: good, result: ['Zoo'] });
    });

    it.each([
      ['a missing field', {}, ['stops']],
      [
        'a nested field of an entry',
        { stops: [good.stops[0], { name: 'Spa', minutes: '5' }] },
        ['stops', 1, 'minutes'],
      ],
      ['a value out of range', { stops: [{ name: 'Spa', minutes: -1 }] }, ['stops', 0, 'minutes']],
    ])('refuses %s with INVALID_INPUT and the path, and writes nothing', async (_what, input, path) => {
      const queue = await on.open();
      const trip = defineJob('trip', { input: schema });
      const { message, details } = await expectCode('INVALID_INPUT', () => queue.enqueue(trip, input));
      expect(message).toContain('"trip"');
      expect(message).toContain(path.join('.'));
      expect(details).toMatchObject({ issues: [{ path, message: expect.any(String) }] });
      expect((await queue.find()).items).toEqual([]);
    });

    it('refuses a whole input that is none, without a path', async () => {
      const queue = await on.open();
      const trip = defineJob('trip', { input: schema });
      for (const input of [undefined, null, 'trip', 5]) {
        const { details } = await expectCode('INVALID_INPUT', () => queue.enqueue(trip, input));
        expect(details, `${vendor} ${String(input)}`).toMatchObject({ issues: [{ path: [] }] });
      }
      expect((await queue.stats()).total.pending).toBe(0);
    });

    it('is asked for a type that is enqueued by its name', async () => {
      const queue = await on.open({ types: [defineJob('trip', { input: schema })] });
      await expectCode('INVALID_INPUT', () => queue.enqueue('trip', { stops: 'none' }));
      expect((await queue.enqueue('trip', good)).outcome).toBe('created');
    });

    it('is asked for every job of a list, and one wrong input refuses all with its index', async () => {
      const queue = await on.open();
      const trip = defineJob('trip', { input: schema });
      const { message, details } = await expectCode('INVALID_INPUT', () =>
        queue.enqueueMany([
          { type: trip, input: good },
          { type: trip, input: { stops: [{ name: 5, minutes: 5 }] } },
        ]),
      );
      expect(message).toMatch(/^Job 1: /);
      expect(details).toMatchObject({ index: 1, issues: [{ path: ['stops', 0, 'name'] }] });
      expect((await queue.stats()).total.pending).toBe(0);
    });
  });
});

const shaping: [string, StandardSchema<unknown, { site: string; retries: number }>][] = [
  ['zod', z.object({ site: z.string().transform((text) => text.trim()), retries: z.number().default(3) })],
  [
    'valibot',
    v.object({
      site: v.pipe(
        v.string(),
        v.transform((text) => text.trim()),
      ),
      retries: v.optional(v.number(), 3),
    }),
  ],
  ['arktype', type({ site: 'string.trim', retries: 'number = 3' })],
];

describe.each(shaping)('what a schema of %s makes of the input', (_vendor, schema) => {
  eachStore((on) => {
    it('is what is stored: transforms and defaults are in it, and keys are made from it', async () => {
      const queue = await on.open();
      const build = defineJob('build', { input: schema, subject: (input) => `site:${input.site}` });
      const { id } = await queue.enqueue(build, { site: '  docs ' });
      expect(await queue.get(id)).toMatchObject({ input: { site: 'docs', retries: 3 }, subject: 'site:docs' });
    });

    it('is not made again when the handler runs', async () => {
      const queue = await on.open();
      const build = defineJob('build', { input: schema, run: ({ input }) => input });
      const { id } = await queue.enqueue(build, { site: ' docs ', retries: 5 });
      await queue.work([build]);
      expect((await queue.wait(id)).result).toEqual({ site: 'docs', retries: 5 });
    });
  });
});

describe('asynchronous validators', () => {
  const known = z.object({
    site: z.string().refine(async (site) => Promise.resolve(site !== 'gone'), 'There is no such site'),
  });
  const slow = v.objectAsync({
    site: v.pipeAsync(
      v.string(),
      v.checkAsync(async (site) => Promise.resolve(site !== 'gone'), 'There is no such site'),
    ),
  });

  describe.each([
    ['zod', known],
    ['valibot', slow],
  ] as [string, StandardSchema<unknown, { site: string }>][])('of %s', (_vendor, schema) => {
    eachStore((on) => {
      it('are awaited: what they refuse is INVALID_INPUT, what they let through is stored', async () => {
        const queue = await on.open();
        const build = defineJob('build', { input: schema });
        const { details } = await expectCode('INVALID_INPUT', () => queue.enqueue(build, { site: 'gone' }));
        expect(details).toEqual({ issues: [{ path: ['site'], message: 'There is no such site' }] });
        expect((await queue.stats()).total.pending).toBe(0);
        const { id } = await queue.enqueue(build, { site: 'docs' });
        expect(await queue.get(id)).toMatchObject({ input: { site: 'docs' } });
      });

      it('hold for lists: one refused input refuses all, with its index', async () => {
        const queue = await on.open();
        const build = defineJob('build', { input: schema });
        const { details } = await expectCode('INVALID_INPUT', () =>
          queue.enqueueMany([
            { type: build, input: { site: 'docs' } },
            { type: build, input: { site: 'gone' } },
          ]),
        );
        expect(details).toMatchObject({ index: 1 });
        expect((await queue.stats()).total.pending).toBe(0);
        const answers = await queue.enqueueMany([
          { type: build, input: { site: 'a' } },
          { type: 'mail', input: 1 },
          { type: build, input: { site: 'b' } },
        ]);
        const found = (await queue.find()).items.map((job) => job.id);
        expect(found).toEqual(answers.map(({ id }) => id).reverse());
      });

      it('that refuse one job of a list while another is refused at once leave no rejection unheard', async () => {
        const unheard: unknown[] = [];
        const hear = (reason: unknown): void => void unheard.push(reason);
        process.on('unhandledRejection', hear);
        try {
          const queue = await on.open();
          const build = defineJob('build', { input: schema });
          const { details } = await expectCode('UNSERIALIZABLE', () =>
            queue.enqueueMany([
              { type: build, input: { site: 'gone' } },
              { type: 'mail', input: undefined as never },
            ]),
          );
          expect(details).toMatchObject({ index: 1 });
          expect((await queue.stats()).total.pending).toBe(0);
          for (let turn = 0; turn < 5; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
          expect(unheard).toEqual([]);
        } finally {
          process.off('unhandledRejection', hear);
        }
      });
    });
  });

  eachStore((on) => {
    it('that throw reject the call with what they threw', async () => {
      const queue = await on.open();
      const validate = () => Promise.reject(new Error('the registry is down'));
      const broken: StandardSchema<unknown, string> = { '~standard': { version: 1, vendor: 'own', validate } };
      await expect(queue.enqueue(defineJob('build', { input: broken }), 'x')).rejects.toThrow('the registry is down');
      expect((await queue.stats()).total.pending).toBe(0);
    });
  });
});

describe('schemas at their edges', () => {
  eachStore((on) => {
    it('many issues are told up to ten', async () => {
      const queue = await on.open();
      const numbers = defineJob('numbers', { input: z.array(z.number()) });
      const { details } = await expectCode('INVALID_INPUT', () =>
        queue.enqueue(numbers, Array.from({ length: 50 }, () => 'x') as never),
      );
      expect(details!.issues).toHaveLength(10);
    });

    it('what a schema lets through must still be storable', async () => {
      const queue = await on.open();
      // @ts-expect-error JSON cannot hold a Date
      const when = defineJob('when', { input: z.object({ at: z.date() }) });
      const { message } = await expectCode('UNSERIALIZABLE', () => queue.enqueue(when, { at: new Date(0) }));
      expect(message).toContain('input.at');
      expect(message).toContain('use toISOString()');
    });

    it('the input is checked before a duplicate is looked for', async () => {
      const queue = await on.open();
      const build = defineJob('build', { input: z.object({ site: z.string() }), deduplication: 'skip' });
      await queue.enqueue(build, { site: 'docs' });
      await expectCode('INVALID_INPUT', () => queue.enqueue(build, { site: 5 } as never));
    });
  });
});

describe('types', () => {
  const build = defineJob('build', {
    input: z.object({ site: z.string(), pages: z.array(z.number()).default([]) }),
    run: async ({ input }) => ({ built: input.pages.length }),
  });
  // Never called: what stands in it is checked by the compiler.
  const calls = (queue: Queue) => ({
    right: () => queue.enqueue(build, { site: 'docs', pages: [1] }),
    defaulted: () => queue.enqueue(build, { site: 'docs' }),
    coerced: () => queue.enqueue(defineJob('n', { input: z.object({ n: z.string().transform(Number) }) }), { n: '5' }),
    open: () => handle(defineJob('open', {}), async (): Promise<Trip> => ({}) as Trip),
    // @ts-expect-error the result is missing
    silent: () => handle(build, async () => undefined),
    // @ts-expect-error a field of the wrong type
    wrongField: () => queue.enqueue(build, { site: 5, pages: [] }),
    // @ts-expect-error a field is missing
    missing: () => queue.enqueue(build, { pages: [] }),
    // @ts-expect-error no input at all
    nothing: () => queue.enqueue(build),
    // @ts-expect-error a field of the wrong type, in a schedule
    scheduled: () => queue.schedule('nightly', build, { site: 5 }, { every: '1h' }),
    // @ts-expect-error an option that does not exist
    option: () => queue.enqueue(build, { site: 'docs', pages: [] }, { dely: 5 }),
    // @ts-expect-error a duration without a unit
    duration: () => queue.enqueue(build, { site: 'docs', pages: [] }, { delay: '5' }),
    // @ts-expect-error a state that does not exist
    state: () => queue.find({ state: 'done' }),
    // @ts-expect-error an event that does not exist
    event: () => queue.on('finished', () => undefined),
  });

  it('a definition carries the type of its input and of its result', () => {
    expectTypeOf(build).toExtend<
      JobType<{ site: string; pages: number[] }, unknown, { site: string; pages?: number[] | undefined }>
    >();
    expectTypeOf(calls).returns.toHaveProperty('right').returns.resolves.toEqualTypeOf<Enqueued<{ built: number }>>();
    expect(build.name).toBe('build');
  });

  it('the input of handle is the one of the definition', () => {
    const producer = defineJob<{ to: string }, number>('mail', {});
    const worker = handle(producer, ({ input }) => {
      expectTypeOf(input).toEqualTypeOf<{ to: string }>();
      return input.to.length;
    });
    expectTypeOf(worker).toEqualTypeOf<JobType<{ to: string }, number>>();
    // @ts-expect-error the result is a number
    expect(handle(producer, () => 'text').name).toBe('mail');
  });

  it('without a schema the input is JSON', () => {
    const plain = defineJob('plain', {
      run: ({ input }) => {
        expectTypeOf(input).toEqualTypeOf<Json>();
        return null;
      },
    });
    expectTypeOf(plain).toEqualTypeOf<JobType<Json, null>>();
    expect(plain.name).toBe('plain');
  });

  it('per-input functions see the output of the schema, for each library', () => {
    const subject = (input: Trip): string => `trip:${input.stops.length}`;
    const definitions = Object.values(schemas).map((input) => defineJob('trip', { input, subject }));
    for (const definition of definitions) expectTypeOf(definition).toExtend<JobType<Trip, unknown, unknown>>();
    expectTypeOf<NonNullable<Definition<Trip, unknown>['run']>>().parameter(0).toEqualTypeOf<Context<Trip>>();
    // @ts-expect-error a subject is made from this input, which has no such field
    const wrong = () => defineJob('trip', { input: schemas.zod!, subject: (input) => `trip:${input.id}` });
    expect(definitions.map(({ name }) => name)).toEqual(['trip', 'trip', 'trip']);
    expect(wrong).toBeTypeOf('function');
  });

  it('a schema given directly is inferred, for each library', () => {
    const byZod = defineJob('a', { input: z.object({ n: z.number() }), run: ({ input }) => input.n });
    const byValibot = defineJob('a', { input: v.object({ n: v.number() }), run: ({ input }) => input.n });
    const byArktype = defineJob('a', { input: type({ n: 'number' }), run: ({ input }) => input.n });
    expectTypeOf(byZod).toEqualTypeOf<JobType<{ n: number }, number>>();
    expectTypeOf(byValibot).toEqualTypeOf<JobType<{ n: number }, number>>();
    expectTypeOf(byArktype).toEqualTypeOf<JobType<{ n: number }, number>>();
    expect([byZod, byValibot, byArktype].map(({ name }) => name)).toEqual(['a', 'a', 'a']);
  });
});
