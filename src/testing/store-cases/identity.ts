/** A store has an identity, made once: what lives outside bears it. */
import assert from 'node:assert/strict';
import { identityPattern } from '../../core/identity.js';
import type { Store } from '../../core/store.js';
import type { StoreCase } from './harness.js';

const identityOf = (store: Store): Promise<string> => store.readIdentity();

export const identityCases: readonly StoreCase[] = [
  {
    name: 'readIdentity: the identity is the same to all who open the store, and stays',
    async run({ store, open, advance }) {
      const first = await identityOf(store);
      assert.match(first, identityPattern);
      advance(60_000);
      const others = await Promise.all([open(new Map()), open(new Map())]);
      for (const each of [store, ...others]) assert.equal(await identityOf(each), first);
    },
  },
  {
    name: 'readIdentity: who opens with a new identity gives it to all who have the store open',
    async run({ store, open }) {
      const first = await identityOf(store);
      const renewed = await open(new Map(), 'new');
      const second = await identityOf(renewed);
      assert.match(second, identityPattern);
      assert.notEqual(second, first);
      assert.equal(await identityOf(store), second);
      assert.equal(await identityOf(await open(new Map())), second);
    },
  },
];
