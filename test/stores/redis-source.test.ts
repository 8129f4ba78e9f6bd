// What can be read off the scripts of the Redis store: they say what they are, stay in their namespace, and block nobody.
import { describe, expect, it } from 'vitest';
import type { Script } from '../../src/stores/redis/call.js';
import { markScript } from '../../src/stores/redis/check.js';
import { scripts } from '../../src/stores/redis/scripts.js';

const all: readonly Script[] = [...Object.values(scripts), markScript];

/** Commands that look at one key, or at none; none of them takes longer the more is stored under other keys. */
const commands = new Set(
  `DEL EXISTS GET HDEL HEXISTS HGET HGETALL HINCRBY HKEYS HLEN HMGET HSCAN HSET HSETNX HVALS INFO LINDEX LLEN LPOP LPUSH LRANGE LSET
   LTRIM PUBLISH RPOP RPUSH SADD SCARD SET SETRANGE SISMEMBER SMEMBERS SMISMEMBER SREM TIME ZADD ZCARD ZCOUNT ZINCRBY ZPOPMIN
   ZRANGE ZRANGEBYLEX ZRANGEBYSCORE ZRANK ZREM ZREVRANGE ZREVRANGEBYLEX ZREVRANGEBYSCORE ZREVRANK ZSCORE`.split(/\s+/),
);

interface Called {
  readonly command: string;
  /** How the key is written, up to the next comma or bracket. */
  readonly key: string;
}

function callsIn({ text }: Script): Called[] {
  const found = text.matchAll(/\bp?call\(\s*([^,()]+?)\s*(?:,\s*([^,()]+))?[,()]/g);
  return [...found].map(([, command = '', key = '']) => ({ command, key: key.trim() }));
}

describe.each(all.map((script) => [script.name, script] as const))('the Redis script %s', (_, script) => {
  it('begins with #!lua, and says what it may do', () => {
    expect(script.text).toMatch(/^#!lua( flags=(no-writes|allow-oom))?\n/);
    expect(script.text.match(/#!lua/g)).toHaveLength(1);
  });

  it('calls only commands that cost what they touch, by their names: never KEYS', () => {
    const called = callsIn(script).filter(({ command }) => command !== 'command'); // the slices of a long list
    expect(called.length).toBeGreaterThan(0);
    const names = called.map(({ command }) => /^'([A-Z]+)'$/.exec(command)?.[1] ?? command);
    expect(names.filter((name) => !commands.has(name))).toEqual([]);
  });

  it('has one key, the root of its namespace, and derives the others from it', () => {
    expect(script.text.match(/KEYS\[1\]/g)).toHaveLength(1);
    expect(script.text.match(/\bKEYS\b/g)).toHaveLength(1);
    // A question about the server itself has a part of its answer in the place of a key.
    const spelledOut = callsIn(script).filter(({ key, command }) => /^['"]/.test(key) && command !== "'INFO'");
    expect(spelledOut).toEqual([]);
    // A constant that is used as a key begins with the root.
    const constants = new Set(callsIn(script).flatMap(({ key }) => (/^[A-Z][A-Z_]+$/.test(key) ? [key] : [])));
    for (const name of constants) expect(valueOf(script.text, name), name).toMatch(/^root \.\. '/);
  });

  it('asks the server for the time, and draws no lots', () => {
    expect(script.text).not.toMatch(/\bos\.|\bmath\.random|\bmath\.randomseed/);
  });
});

/** What a constant is set to in `local A, B = x, y`. */
function valueOf(text: string, name: string): string | undefined {
  for (const [, names = '', values = ''] of text.matchAll(/^local ([A-Z_, ]+) = (.+)$/gm)) {
    const at = names.split(', ').indexOf(name);
    if (at >= 0) return values.split(', ')[at];
  }
  return undefined;
}
