// Properties of the four gates through which values of callers become stored text: JSON, durations, names, thrown values.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { toMs } from '../src/core/duration.js';
import { byteLength, canonicalText, fingerprint, toStoredText } from '../src/core/json.js';
import { checkId, checkKey, checkName, checkSubject } from '../src/core/names.js';
import { describeThrown, storable } from '../src/core/thrown.js';
import { type Code, LastoutError, type Queue } from '../src/index.js';
import { eachStore } from './support.js';

function codeOf(call: () => unknown): Code | null {
  try {
    call();
    return null;
  } catch (error) {
    expect(error).toBeInstanceOf(LastoutError);
    return (error as LastoutError).code;
  }
}

const text = fc.string({ unit: 'binary' });
const storableText = text.filter((value) => !value.includes('\0') && value.isWellFormed());
const storableNumber = fc
  .oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.maxSafeInteger())
  .filter((value) => !Number.isInteger(value) || Number.isSafeInteger(value))
  .map((value) => (value === 0 ? 0 : value)); // JSON has no −0

/** Whatever must be accepted: empty containers, nesting, keys and texts of any characters. */
const storableValue = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constant(null),
    fc.boolean(),
    storableNumber,
    storableText,
    fc.constant({}),
    fc.constant([]),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(
      storableText.filter((key) => key !== '__proto__' && key !== 'prototype' && key !== 'toJSON'),
      tie('value'),
      { maxKeys: 4 },
    ),
  ),
})).value;

/** Anything at all, as a caller without types may hand it in. */
const anyValue = fc.anything({
  withBigInt: true,
  withBoxedValues: true,
  withDate: true,
  withMap: true,
  withNullPrototype: true,
  withObjectString: true,
  withSet: true,
  withSparseArray: true,
  withTypedArray: true,
  withUnicodeString: true,
} as fc.ObjectConstraints);

const refusals: readonly Code[] = [
  'UNSERIALIZABLE',
  'UNSTORABLE_TEXT',
  'UNSAFE_INTEGER',
  'FORBIDDEN_KEY',
  'PAYLOAD_TOO_DEEP',
  'PAYLOAD_TOO_LARGE',
];

describe('JSON', () => {
  it('what is storable is accepted and comes back equal', () => {
    fc.assert(
      fc.property(storableValue, (value) => {
        expect(JSON.parse(toStoredText(value, 'input'))).toEqual(plain(value));
      }),
      { numRuns: 1_000 },
    );
  });

  it('anything is either refused with a code and a path, or comes back equal', () => {
    fc.assert(
      fc.property(anyValue, (value) => {
        let stored: string;
        try {
          stored = toStoredText(value, 'input');
        } catch (error) {
          expect(error).toBeInstanceOf(LastoutError);
          expect(refusals).toContain((error as LastoutError).code);
          expect((error as LastoutError).message).toContain('input');
          return;
        }
        expect(JSON.parse(stored)).toEqual(plain(value));
      }),
      { numRuns: 2_000 },
    );
  });

  it('an accepted text has no NUL and no lone surrogate, and its bytes are counted right', () => {
    fc.assert(
      fc.property(storableValue, (value) => {
        const stored = toStoredText(value, 'input');
        expect(stored.isWellFormed()).toBe(true);
        expect(stored).not.toContain('\\u0000');
        expect(byteLength(stored)).toBe(Buffer.byteLength(stored));
      }),
    );
  });

  it('the limit is a limit of bytes: one more is refused', () => {
    fc.assert(
      fc.property(storableValue, (value) => {
        const bytes = Buffer.byteLength(JSON.stringify(value));
        expect(codeOf(() => toStoredText(value, 'input', bytes))).toBeNull();
        expect(codeOf(() => toStoredText(value, 'input', bytes - 1))).toBe('PAYLOAD_TOO_LARGE');
      }),
    );
  });

  it('equal values have equal canonical texts and fingerprints, whatever the order of their keys', () => {
    fc.assert(
      fc.property(storableValue, (value) => {
        const [one, other] = [JSON.stringify(value), JSON.stringify(withKeysReversed(value))];
        expect(canonicalText(other)).toBe(canonicalText(one));
        expect(fingerprint(canonicalText(other))).toBe(fingerprint(canonicalText(one)));
        expect(JSON.parse(canonicalText(one))).toEqual(plain(value));
      }),
    );
  });

  it('different values have different canonical texts', () => {
    fc.assert(
      fc.property(storableValue, storableValue, (one, other) => {
        fc.pre(JSON.stringify(one) !== JSON.stringify(other));
        fc.pre(JSON.stringify(withKeysSorted(one)) !== JSON.stringify(withKeysSorted(other)));
        expect(canonicalText(JSON.stringify(one))).not.toBe(canonicalText(JSON.stringify(other)));
      }),
    );
  });

  it('−0 is stored as 0, because JSON has no other', () => {
    expect(toStoredText(-0, 'input')).toBe('0');
  });
});

/** Without the null prototypes that fast-check makes, which are plain objects to JSON; and with 0 for −0. */
function plain(value: unknown): unknown {
  return value === undefined ? undefined : JSON.parse(JSON.stringify(value));
}
function withKeysReversed(value: unknown): unknown {
  return mapKeys(value, (keys) => keys.reverse());
}
function withKeysSorted(value: unknown): unknown {
  return mapKeys(value, (keys) => keys.sort());
}
function mapKeys(value: unknown, order: (keys: string[]) => string[]): unknown {
  if (Array.isArray(value)) return value.map((item) => mapKeys(item, order));
  if (value === null || typeof value !== 'object') return value;
  const keys = order(Object.keys(value));
  return Object.fromEntries(keys.map((key) => [key, mapKeys((value as Record<string, unknown>)[key], order)]));
}

describe('JSON, through the stores', () => {
  /** What enqueueing did: the refusal, or the input and the metadata as they are read back. */
  async function roundTrip(queue: Queue, value: unknown): Promise<unknown> {
    try {
      const metadata = { value } as never;
      const { id } = await queue.enqueue('mail', value, { metadata });
      const job = await queue.get(id);
      return { input: job!.input, metadata: job!.metadata };
    } catch (error) {
      expect(error).toBeInstanceOf(LastoutError);
      return (error as LastoutError).code;
    }
  }

  eachStore((on) => {
    it('what is storable comes back deep-equal, as input and as metadata', async () => {
      const queue = await on.open();
      await fc.assert(
        fc.asyncProperty(storableValue, async (value) => {
          expect(await roundTrip(queue, value)).toEqual({ input: plain(value), metadata: { value: plain(value) } });
        }),
        { numRuns: 150 },
      );
    });

    it('anything is refused by the gate or comes back: no store has an opinion of its own', async () => {
      const queue = await on.open();
      await fc.assert(
        fc.asyncProperty(anyValue, async (value) => {
          const refused = codeOf(() => toStoredText([value], 'metadata'));
          const expected = refused ?? { input: plain(value), metadata: { value: plain(value) } };
          expect(await roundTrip(queue, value)).toEqual(expected);
        }),
        { numRuns: 150 },
      );
    });

    it('keys, subjects and sources of any characters come back as they were, and are found by', async () => {
      const queue = await on.open();
      const key = storableText.filter((value) => value !== '' && Buffer.byteLength(value) <= 200);
      await fc.assert(
        fc.asyncProperty(key, async (value) => {
          fc.pre(!value.includes('*') && !value.includes('%'));
          const subject = `kind:${value}`;
          const options = { subject, deduplicationKey: value, exclusiveKey: value, source: value };
          const { id } = await queue.enqueue('mail', null, options);
          expect(await queue.get(id)).toMatchObject(options);
          for (const filter of [{ subject }, { key: value }, { source: value }]) {
            const found = (await queue.find({ ...filter, limit: 1 })).items;
            expect(found.map((job) => job.id)).toEqual([id]);
          }
        }),
        { numRuns: 100 },
      );
    });
  });
});

describe('durations', () => {
  const units = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 } as const;
  const longest = 3650 * units.d;

  it('a number is milliseconds, rounded; a text is a number with a unit', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: longest, noNaN: true }), (ms) => {
        expect(toMs(ms, 'x')).toBe(Math.round(ms));
      }),
    );
    fc.assert(
      fc.property(fc.nat(500), fc.constantFrom(...(Object.keys(units) as (keyof typeof units)[])), (n, unit) => {
        expect(toMs(`${n}${unit}`, 'x')).toBe(n * units[unit]);
        expect(toMs(`${n}.5${unit}`, 'x')).toBe(Math.round((n + 0.5) * units[unit]));
      }),
    );
  });

  it('anything else is refused with the code that was asked for, and every answer is a bounded whole number', () => {
    const odd = fc.oneof(
      anyValue,
      fc.double(),
      fc.string(),
      fc
        .tuple(fc.double(), fc.constantFrom('ms', 's', 'm', 'h', 'd', 'w', '', 'y', 'S'))
        .map((parts) => parts.join('')),
    );
    fc.assert(
      fc.property(odd, (value) => {
        let ms: number;
        try {
          ms = toMs(value, 'ttl', 'INVALID_TTL');
        } catch (error) {
          expect(error).toMatchObject({ code: 'INVALID_TTL', message: expect.stringMatching(/^ttl is /) });
          return;
        }
        expect(Number.isSafeInteger(ms) && ms >= 0 && ms <= longest).toBe(true);
        expect(typeof value === 'number' || /^\d+(\.\d+)?(ms|s|m|h|d|w)$/.test(value as string)).toBe(true);
      }),
      { numRuns: 1_000 },
    );
  });

  it.each(['5', '', ' 5s', '5s ', '5 s', '+5s', '-5s', '.5s', '5.s', '5S', '5sec', '1e3ms', '0x5s', '5s5s', '٥s'])(
    'the text %j is refused',
    (value) => {
      expect(codeOf(() => toMs(value, 'x'))).toBe('INVALID_DURATION');
    },
  );
});

describe('names', () => {
  it('a name is 1 to 128 letters, digits, dots, underscores and dashes, with a letter or digit first', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/), (name) => {
        expect(checkName(name, 'queue')).toBe(name);
        expect(checkId(name)).toBe(name);
      }),
    );
    fc.assert(
      fc.property(fc.oneof(text, anyValue), (value) => {
        const fits = typeof value === 'string' && /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(value);
        expect(codeOf(() => checkName(value, 'queue'))).toBe(fits ? null : 'INVALID_NAME');
      }),
      { numRuns: 500 },
    );
  });

  it('a name followed by a line break is none', () => {
    for (const name of ['a\n', 'a\r\n', '\na', 'a\nb']) expect(codeOf(() => checkName(name, 'x'))).toBe('INVALID_NAME');
  });

  it('a key is any storable text of 1 to 256 bytes', () => {
    fc.assert(
      fc.property(fc.oneof(text, fc.string({ unit: 'binary', minLength: 50, maxLength: 300 }), anyValue), (value) => {
        const fits =
          typeof value === 'string' &&
          value !== '' &&
          Buffer.byteLength(value) <= 256 &&
          !value.includes('\0') &&
          value.isWellFormed();
        expect(codeOf(() => checkKey(value, 'key'))).toBe(fits ? null : 'INVALID_KEY');
      }),
      { numRuns: 1_000 },
    );
  });

  it('a subject is a name, a colon and something', () => {
    const kind = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,20}$/);
    const rest = storableText.filter((value) => value !== '' && Buffer.byteLength(value) < 200);
    fc.assert(
      fc.property(kind, rest, (before, behind) => {
        expect(checkSubject(`${before}:${behind}`)).toBe(`${before}:${behind}`);
        expect(codeOf(() => checkSubject(`${before}:`))).toBe('INVALID_KEY');
        expect(codeOf(() => checkSubject(`:${behind}`))).toBe('INVALID_KEY');
        expect(codeOf(() => checkSubject(before))).toBe('INVALID_KEY');
      }),
    );
  });
});

describe('thrown values', () => {
  const trap = (): never => {
    throw new Error('trapped');
  };
  const hostile = fc.constantFrom<() => unknown>(
    () => new Proxy({}, { get: trap, has: trap, getPrototypeOf: trap, ownKeys: trap }),
    () => new Proxy(() => 1, { get: trap, apply: trap }),
    () => ({ get message(): string { return trap(); } }),
    () => ({ message: 'm', get code(): string { return trap(); }, get stack(): string { return trap(); } }),
    () => ({ toString: trap, valueOf: trap, [Symbol.toPrimitive]: trap }),
    () => Object.create(null),
    () => Object.freeze(new Error('frozen')),
  ); // biome-ignore format: one value a line
  const long = fc
    .tuple(fc.constantFrom('x', '"', '\\', '\u0001', '\0', '\ud83d', '🚂', '€', '\n', '\u2028'), fc.nat(40_000))
    .map(([unit, n]) => unit.repeat(n));
  const error = fc
    .record({
      message: fc.oneof(text, long),
      code: fc.oneof(text, long, anyValue),
      stack: fc.oneof(text, long, anyValue),
    })
    .map(({ message, code, stack }) =>
      Object.assign(new Error(message, { cause: new Error(message) }), { code, stack }),
    );
  // Made inside the property: fast-check itself looks at what it hands over.
  const thrown = fc.oneof(
    fc.oneof(anyValue, text, long, error).map((value) => () => value),
    hostile,
  );

  it('become an error that is at most 16 KiB as JSON and that every store can keep; describing never throws', () => {
    fc.assert(
      fc.property(thrown, (make) => {
        const described = describeThrown(make());
        const json = JSON.stringify(described);
        expect(byteLength(json)).toBeLessThanOrEqual(16 * 1024);
        expect(toStoredText(described, 'error')).toBe(json);
        expect(typeof described.message).toBe('string');
      }),
      { numRuns: 1_000 },
    );
  });

  it('a message that fits is kept as it is', () => {
    fc.assert(
      fc.property(storableText, (message) => {
        expect(describeThrown(new Error(message)).message).toBe(message);
        expect(describeThrown(message).message).toBe(message);
      }),
    );
  });

  it('a text is cut to its bytes as JSON, marked where it was cut, and otherwise whole', () => {
    fc.assert(
      fc.property(fc.oneof(text, long), fc.integer({ min: 16, max: 2_000 }), (value, max) => {
        const kept = storable(value, max);
        const bytes = (part: string): number => Buffer.byteLength(JSON.stringify(part)) - 2;
        expect(bytes(kept)).toBeLessThanOrEqual(max);
        expect(kept.isWellFormed() && !kept.includes('\0')).toBe(true);
        const whole = value.replaceAll('\0', '\\u0000').toWellFormed();
        if (bytes(whole) <= max) expect(kept).toBe(whole);
        else expect(kept.endsWith('…')).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});
