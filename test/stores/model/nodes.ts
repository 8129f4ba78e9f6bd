// Acts about the nodes themselves: one is killed with all it holds, or stands still and comes back with old claims.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Ending } from '../../../src/core/ending.js';
import {
  Act,
  advance,
  claim,
  endings,
  extendAll,
  heldNow,
  holdsOf,
  type Hold,
  note,
  nodes,
  ownerOf,
  request,
  settleAll,
  text,
  worldOf,
} from './act.js';
import { count, type Real } from './compare.js';
import type { Model } from './model.js';

const node = fc.constantFrom<string>(...nodes);
/** Longer than every lease of a sequence. */
const longMs = 61;
/** So many lapsed claims come back at once at most. */
const lapsedPerPass = 20;

const ofNode = (model: Model, holds: readonly Hold[], name: string): Hold[] =>
  holds.filter(({ owner }) => owner === ownerOf(model, name));
const holdsSomething =
  (name: string) =>
  (model: Model): boolean =>
    !worldOf(model).still.has(name) && ofNode(model, heldNow(model), name).length > 0;

/** Its claims stay until they lapse; what starts in its place has another owner. */
function kill(model: Model, name: string): void {
  const { starts, still } = worldOf(model);
  starts.set(name, (starts.get(name) ?? 0) + 1);
  still.delete(name);
}

const everything = { types: ['a', 'b', 's'], queues: null, slots: 50, ahead: 0, leaseMs: 60, maxStalls: 3 };
const takeOver = (model: Model, real: Real): Promise<void> => claim(model, real, { ...everything, owner: 'w3' });

/** A node that stood still goes on as if nothing had happened: heartbeat, notes, and all its endings in one call. */
async function goOn(model: Model, real: Real, name: string, holds: readonly Hold[], ending: Ending) {
  worldOf(model).still.delete(name);
  const owner = ownerOf(model, name);
  const claims = [...new Set(holds.map(({ epoch }) => epoch))].map((epoch) => {
    const ids = holds.filter((hold) => hold.epoch === epoch).map(({ id }) => id);
    return { epoch, ids, started: ids };
  });
  await extendAll(model, real, { owner, leaseMs: 50, claims, card: null });
  for (const hold of holds.slice(0, 3)) await note(model, real, hold, 7);
  const settlements = holds.map(({ id, epoch }) => ({ id, epoch, ending }));
  const answers = await settleAll(model, real, owner, settlements);
  for (const answer of answers) if (answer !== 'ok') count(real, `${answer} after a pause`);
  return answers;
}

export const standing = [
  fc.tuple(node, fc.constantFrom(0, 20, longMs)).map(
    ([name, ms]) =>
      new Act(
        `killNode(${name}, ${ms})`,
        async (model, real) => {
          kill(model, name);
          advance(model, real, ms);
          count(real, 'nodes killed');
        },
        holdsSomething(name),
      ),
  ),
  node.map(
    (name) =>
      new Act(
        `killNodeAndTakeOver(${name})`,
        async (model, real) => {
          const held = ofNode(model, heldNow(model), name);
          kill(model, name);
          advance(model, real, longMs);
          await takeOver(model, real);
          const still = held.filter(({ id, epoch }) => model.byId(id)?.claim?.epoch === epoch);
          assert.ok(still.length === 0 || model.claims.length >= lapsedPerPass, 'a dead node holds nothing');
          count(real, 'nodes killed');
        },
        holdsSomething(name),
      ),
  ),
  node.map(
    (name) =>
      new Act(
        `pauseNode(${name})`,
        async (model) => void worldOf(model).still.add(name),
        (model) => !worldOf(model).still.has(name),
      ),
  ),
  fc.tuple(node, endings).map(
    ([name, ending]) =>
      new Act(
        `returnNode(${name}, ${text(ending)})`,
        async (model, real) => {
          const holds = ofNode(model, holdsOf(model), name).slice(-10);
          await goOn(model, real, name, holds, ending);
        },
        (model) => worldOf(model).still.has(name),
      ),
  ),
  fc.tuple(node, endings).map(
    ([name, ending]) =>
      new Act(
        `pauseAndReturn(${name}, ${text(ending)})`,
        async (model, real) => {
          const held = ofNode(model, heldNow(model), name);
          const bounded = model.claims.length < lapsedPerPass;
          worldOf(model).still.add(name);
          advance(model, real, longMs);
          await takeOver(model, real);
          const answers = await goOn(model, real, name, held, ending);
          if (bounded)
            assert.deepEqual(new Set(answers), new Set(['STALE_CLAIM']), 'whoever was given up is not heard');
          count(real, 'pauses outlived');
        },
        holdsSomething(name),
      ),
  ),
  request.map(
    (one) =>
      new Act(
        `returnOfTheDead(${text(one)})`,
        async (model, real) => {
          const dead = heldNow(model).filter(({ owner }) => owner !== ownerOf(model, owner.split('.')[0]!));
          for (const { id, epoch, owner } of dead)
            await settleAll(model, real, owner, [{ id, epoch, ending: { kind: 'release' } }]);
        },
        (model) => heldNow(model).some(({ owner }) => owner !== ownerOf(model, owner.split('.')[0]!)),
      ),
  ),
];
