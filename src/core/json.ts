/** JSON values, and the one gate through which a caller's value becomes stored text. */
import { LastoutError } from './errors.js';
import { reading } from './reading.js';

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/**
 * `T` where JSON can hold it, `never` in the place of what it cannot: what does not fit into this does not compile as input
 * or result. Interfaces count as what they have. A property may be undefined, and is then left out; an item of a list may not.
 * What is `any` or `unknown` is looked at when it is stored.
 */
export type Storable<T> = T extends Json
  ? T
  : T extends bigint | symbol | undefined | ((...args: never) => unknown) | (abstract new (...args: never) => unknown)
    ? never
    : T extends readonly unknown[]
      ? { readonly [K in keyof T]: Storable<T[K]> }
      : T extends object
        ? {
            readonly [K in keyof T]: K extends symbol
              ? never
              : Storable<Exclude<T[K], undefined>> | Extract<T[K], undefined>;
          }
        : unknown extends T
          ? T
          : never;

export const payloadBytesMax = 256 * 1024;
const depthMax = 64;
/** A UTF-16 unit takes at most so many bytes in UTF-8. */
const bytesPerUnitMax = 3;
/** What is larger is looked at closely. */
const plainNodesMax = 1_000;

/**
 * Turns a value into the text every store keeps, or refuses it with a code and the path of the culprit.
 * The rules are the strictest of all engines, so that a value is accepted everywhere or nowhere.
 */
export function toStoredText(value: unknown, what: string, bytesMax = payloadBytesMax): string {
  const text = reading(
    what,
    'UNSERIALIZABLE',
    () => plainText(value, bytesMax) ?? inspectedText(value, what, bytesMax),
  );
  const bytes = text.length * bytesPerUnitMax > bytesMax ? byteLength(text) : 0;
  if (bytes > bytesMax) {
    throw new LastoutError(
      'PAYLOAD_TOO_LARGE',
      `${what} is ${bytes} bytes as JSON; at most ${bytesMax} are stored. Store the bulk elsewhere and pass a reference.`,
      { bytes, max: bytesMax },
    );
  }
  return text;
}

/**
 * The text of a value in which nothing is unusual, as nearly all are; null: inspect it, and say what is wrong where
 * something is. What JSON writes as \u… may be a text that cannot be stored.
 */
function plainText(value: unknown, bytesMax: number): string | null {
  const look = { nodesLeft: plainNodesMax, unitsLeft: bytesMax };
  const plain = isObject(value) ? plainCopy(value, 1, look) : value;
  if (plain === undefined || !(isObject(plain) || isPlain(plain, look))) return null;
  const text = JSON.stringify(plain);
  return text.includes('\\u') ? null : text;
}

interface PlainLook {
  nodesLeft: number;
  /** Of texts. Each unit takes at least a byte. */
  unitsLeft: number;
}

/** A copy, because an accessor could answer differently when it is asked a second time. Its size is known before it is made. */
function plainCopy(value: object, depth: number, look: PlainLook): object | undefined {
  const list = Array.isArray(value) ? (value as readonly unknown[]) : null;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== (list ? Array.prototype : Object.prototype) || 'toJSON' in value) return undefined;
  if (depth > depthMax || Object.getOwnPropertySymbols(value).length > 0) return undefined;
  return list ? plainList(list, depth, look) : plainRecord(value as { [key: string]: unknown }, depth, look);
}

function plainList(value: readonly unknown[], depth: number, look: PlainLook): object | undefined {
  const { length } = value;
  look.nodesLeft -= length;
  if (look.nodesLeft < 0) return undefined;
  const copy: unknown[] = [];
  for (let i = 0; i < length; i++) {
    const item = plainItem(value[i], depth, look);
    if (item === undefined) return undefined;
    copy.push(item);
  }
  return copy;
}

function plainRecord(value: { [key: string]: unknown }, depth: number, look: PlainLook): object | undefined {
  const keys = Object.keys(value);
  look.nodesLeft -= keys.length;
  if (look.nodesLeft < 0) return undefined;
  const copy: { [key: string]: unknown } = {};
  for (const key of keys) {
    look.unitsLeft -= key.length;
    if (look.unitsLeft < 0 || key === '__proto__' || key === 'prototype') return undefined;
    const given = value[key];
    if (given === undefined) continue;
    const item = plainItem(given, depth, look);
    if (item === undefined) return undefined;
    copy[key] = item;
  }
  return copy;
}

/** Undefined: it is unusual. */
function plainItem(item: unknown, depth: number, look: PlainLook): unknown {
  if (isObject(item)) return plainCopy(item, depth + 1, look);
  return isPlain(item, look) ? item : undefined;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function isPlain(item: unknown, look: PlainLook): boolean {
  if (typeof item === 'number') return Number.isFinite(item) && (Number.isSafeInteger(item) || !Number.isInteger(item));
  if (typeof item !== 'string') return typeof item === 'boolean' || item === null;
  look.unitsLeft -= item.length;
  return look.unitsLeft >= 0;
}

/** What is common to one inspection. */
interface Look {
  readonly above: Set<object>;
  readonly bytesMax: number;
  /** Every value, and every unit of a text, takes at least one. */
  bytesLeft: number;
}

function inspectedText(value: unknown, what: string, bytesMax: number): string {
  return JSON.stringify(inspect(value, what, 1, { above: new Set(), bytesLeft: bytesMax, bytesMax }));
}

/** Before anything of this size is copied. */
function spend(bytes: number, path: string, look: Look): void {
  look.bytesLeft -= bytes;
  if (look.bytesLeft < 0)
    throw new LastoutError('PAYLOAD_TOO_LARGE', `${path} goes beyond the ${look.bytesMax} bytes that are stored.`, {
      max: look.bytesMax,
    });
}

/** Returns a plain copy: an accessor could answer differently when it is asked a second time. */
function inspect(value: unknown, path: string, depth: number, look: Look): Json {
  spend(typeof value === 'string' ? Math.max(1, value.length) : 1, path, look);
  switch (typeof value) {
    case 'string':
      return checkText(value, path);
    case 'boolean':
      return value;
    case 'number':
      return checkNumber(value, path);
    case 'object':
      return value === null ? null : inspectObject(value, path, depth, look);
    case 'undefined':
    case 'function':
    case 'symbol':
    case 'bigint':
      throw unserializable(path, unstorableKinds[typeof value as keyof typeof unstorableKinds]);
  }
}

const unstorableKinds = {
  undefined: 'is undefined; use null',
  function: 'is a function; store data, not code',
  symbol: 'is a symbol; use text',
  bigint: 'is a bigint; send it as text',
} as const;

function inspectObject(value: object, path: string, depth: number, look: Look): Json {
  if (depth > depthMax) {
    throw new LastoutError('PAYLOAD_TOO_DEEP', `${path} is nested deeper than ${depthMax} levels.`, { max: depthMax });
  }
  if (look.above.has(value)) throw unserializable(path, 'refers back to itself');
  look.above.add(value);
  const copy = Array.isArray(value) ? inspectList(value, path, depth, look) : inspectRecord(value, path, depth, look);
  look.above.delete(value);
  return copy;
}

function inspectList(value: readonly unknown[], path: string, depth: number, look: Look): Json {
  refuseToJson(value, path);
  const { length } = value;
  if (length > look.bytesLeft) spend(length, path, look);
  const copy: Json[] = [];
  for (let i = 0; i < length; i++) {
    if (!Object.hasOwn(value, i)) throw unserializable(`${path}[${i}]`, 'is a hole in a list; use null');
    copy.push(inspect(value[i], `${path}[${i}]`, depth + 1, look));
  }
  return copy;
}

function inspectRecord(value: object, path: string, depth: number, look: Look): Json {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    const name = value.constructor?.name ?? 'an instance of a class';
    const advice = value instanceof Date ? '; use toISOString()' : '; pass a plain object';
    throw unserializable(path, `is a ${name}${advice}`);
  }
  refuseToJson(value, path);
  if (Object.getOwnPropertySymbols(value).length > 0) throw unserializable(path, 'has symbol keys');
  const keys = Object.keys(value);
  if (keys.length > look.bytesLeft) spend(keys.length, path, look);
  const copy: { [key: string]: Json } = {};
  for (const key of keys) {
    if (key === '__proto__' || (key === 'prototype' && path.endsWith('.constructor'))) {
      throw new LastoutError(
        'FORBIDDEN_KEY',
        `${path} has the key "${key}", which is refused because it can change what objects inherit.`,
      );
    }
    const given = (value as { [key: string]: unknown })[key];
    // Left out, as JSON does.
    if (given === undefined) continue;
    spend(key.length, path, look);
    checkText(key, `a key of ${path}`);
    copy[key] = inspect(given, below(path, key), depth + 1, look);
  }
  return copy;
}

const pathMax = 200;

/** Only a plain key stands behind a dot, so that a path is read in one way; a long one is cut in its middle. */
function below(path: string, key: string): string {
  const shown = key.length > 50 ? `${key.slice(0, 50)}…` : key;
  const whole = /^[\w$-]{1,50}$/.test(key) ? `${path}.${key}` : `${path}[${JSON.stringify(shown)}]`;
  return whole.length > pathMax ? `${whole.slice(0, 80)}…${whole.slice(-100)}` : whole;
}

/** It would be stored instead of what was inspected. */
function refuseToJson(value: object, path: string): void {
  if ('toJSON' in value && typeof value.toJSON === 'function')
    throw unserializable(path, 'has a toJSON method; pass what it returns');
}

function checkText(text: string, path: string): string {
  const fault = text.includes('\0') ? 'a NUL character' : text.isWellFormed() ? null : 'a lone surrogate';
  if (fault) throw new LastoutError('UNSTORABLE_TEXT', `${path} contains ${fault}, which not every store can keep.`);
  return text;
}

function checkNumber(value: number, path: string): number {
  if (!Number.isFinite(value)) throw unserializable(path, `is ${value}, which JSON cannot hold`);
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
    throw new LastoutError(
      'UNSAFE_INTEGER',
      `${path} is an integer beyond 2^53 and would lose digits; send it as a string.`,
    );
  }
  return value;
}

function unserializable(path: string, fault: string): LastoutError {
  return new LastoutError('UNSERIALIZABLE', `${path} ${fault}.`, { path });
}

/** Bytes of a text in UTF-8, without a node: module. */
export function byteLength(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) continue;
    if (unit >= 0xd800 && unit <= 0xdbff) {
      bytes += 2;
      i += 1;
    } else {
      bytes += unit < 0x800 ? 1 : 2;
    }
  }
  return bytes;
}

/** The same text for equal values, whatever the order of their keys: how inputs of one id are compared. */
export function canonicalText(text: string): string {
  return JSON.stringify(JSON.parse(text), (_key, value: unknown) =>
    value !== null && typeof value === 'object' && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value,
  );
}

/** A short fingerprint (53 bits) of a text; for comparing, never for security. */
export function fingerprint(text: string): string {
  let a = 0xdeadbeef;
  let b = 0x41c6ce57;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    a = Math.imul(a ^ unit, 2654435761);
    b = Math.imul(b ^ unit, 1597334677);
  }
  a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909);
  b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909);
  return (4294967296 * (2097151 & b) + (a >>> 0)).toString(36);
}
