/**
 * The loop: each operation × the k-th store call × each way to fail × how long × what comes then. A cell is one
 * world with one such fault. After it, all faults are lifted, the work is done to the end, and the world is judged.
 */
import { expectNothingLeft } from '../../src/testing/index.js';
import type { Arena } from './arena.js';
import { judge } from './judge.js';
import type { Operation, Then } from './operation.js';
import type { Fault, Lasts, Way } from './wire.js';
import { createWorld, type Process, type World } from './world.js';

interface Variant {
  readonly way: Way;
  readonly lasts: Lasts;
  readonly then: Then;
}

const unknownWays = ['error before', 'error after', 'hang before', 'hang after'] as const;

const variants: readonly Variant[] = [
  ...unknownWays.flatMap((way): Variant[] => [
    { way, lasts: 'once', then: 'retry' },
    { way, lasts: 'once', then: 'restart' },
    { way, lasts: 'now and then', then: 'retry' },
    { way, lasts: 'for ever', then: 'retry' },
    { way, lasts: 'for ever', then: 'restart' },
  ]),
  { way: 'refusal', lasts: 'once', then: 'retry' },
  { way: 'refusal', lasts: 'now and then', then: 'retry' },
  { way: 'refusal', lasts: 'for ever', then: 'retry' },
  { way: 'death before', lasts: 'once', then: 'restart' },
  { way: 'death after', lasts: 'once', then: 'restart' },
];

const ways = [...new Set(variants.map(({ way }) => way))];

/**
 * For engines where all would take long. `each way`: at every call every way to fail, for how long and what then in turn.
 * `two ways`: at every call two of the ways, and these in turn as well.
 */
export type Share = 'all' | 'each way' | 'two ways';

function variantsAt(share: Share, turn: number): readonly Variant[] {
  if (share === 'all') return variants;
  const each = ways.map((way, index) => {
    const ofWay = variants.filter((variant) => variant.way === way);
    return ofWay[(turn + index) % ofWay.length]!;
  });
  return share === 'each way' ? each : [each[(2 * turn) % each.length]!, each[(2 * turn + 1) % each.length]!];
}

/** More calls than any operation makes: a loop that never ends is a fault of the loop. */
const callsMax = 60;
/** Enough to see what they have in common. */
const brokenMax = 20;
/** After the last fault, by the clock: a lapse, some backoff, the time that jobs themselves take. */
const restMaxMs = 300_000;

export interface Tally {
  cells: number;
  /** Calls per operation. */
  calls: number;
  readonly verbs: Set<string>;
}

/** Every cell of one operation; throws where some break a rule, with their coordinates. */
export async function allCells(arena: Arena, make: () => Operation, share: Share, turn: number): Promise<Tally> {
  const tally: Tally = { cells: 0, calls: 0, verbs: new Set() };
  const broken: Error[] = [];
  for (let at = 1; at <= callsMax; at++) {
    let hits = 0;
    for (const variant of variantsAt(share, turn + at)) {
      const verb = await cell(arena, make, { at, ...variant }, variant.then).catch((error: unknown) => error as Error);
      if (verb === null) continue;
      hits += 1;
      if (verb instanceof Error) broken.push(verb);
      else tally.verbs.add(verb);
    }
    if (hits === 0 || broken.length > brokenMax) break;
    tally.cells += hits;
    tally.calls = at;
  }
  if (broken.length > 0) throw new Error(broken.map(({ message }) => message).join('\n'), { cause: broken[0] });
  if (tally.calls === callsMax) throw new Error(`More than ${callsMax} store calls`);
  return tally;
}

/** The verb that was hit; null: there is no k-th call. */
async function cell(arena: Arena, make: () => Operation, fault: Fault, then: Then): Promise<string | null> {
  const operation = make();
  await using world = await createWorld(await arena.next(), operation.options);
  const unheard: unknown[] = [];
  const hear = (reason: unknown): void => void unheard.push(reason);
  process.on('unhandledRejection', hear);
  let a: Process | null = null;
  try {
    a = await world.start('a', operation.opens ? fault : undefined);
    if (!operation.opens) {
      await world.clock.settle(); // its first sweep
      await world.drive(operation.setUp?.(world, a) ?? Promise.resolve());
      a.wire.arm(fault);
    }
    await world.drive(operation.run(world, a), a);
    if (a.wire.hitAt === null) return null;
    const verb = a.wire.calls[fault.at - 1]!;
    await goOn(world, operation, a, then);
    await world.clock.settle();
    if (unheard.length > 0) throw new Error('A rejection was left unhandled', { cause: unheard[0] });
    return verb;
  } catch (error) {
    const verb = a?.wire.calls[fault.at - 1] ?? '';
    const where = `${fault.way} ${fault.lasts} at call ${fault.at} (${verb}), then ${then}`;
    throw new Error(`${where}: ${(error as Error).message}`, { cause: error });
  } finally {
    process.off('unhandledRejection', hear);
  }
}

async function goOn(world: World, operation: Operation, a: Process, then: Then): Promise<void> {
  const restarted = then === 'restart' || operation.closes === true;
  if (then === 'restart') a.kill();
  a.wire.lift();
  const living = restarted ? await world.start('b') : a;
  await world.drive(operation.again?.(world, living, then) ?? Promise.resolve());
  await rest(world, living);
  const workersLived = then !== 'restart' && operation.stops !== true;
  const faults = await judge(world, { workersLived });
  if (faults.length > 0) throw new Error(faults.join('; '));
  await operation.check?.(world, await world.jobs(), then);
  await expectNothingLeft(living.queue);
  await closeAll(world, living);
}

/** Works off what there is. */
async function rest(world: World, living: Process): Promise<void> {
  world.release();
  await world.drive(living.work());
  const isOver = await world.drive(world.until(() => world.isQuiet(), restMaxMs));
  if (isOver) return;
  const left = (await world.jobs()).filter(({ state }) => state === 'pending' || state === 'processing');
  throw new Error(`No rest: ${left.map(({ id, state }) => `${id} is ${state}`).join(', ')}`);
}

async function closeAll(world: World, living: Process): Promise<void> {
  for (const process of world.processes) {
    if (process.killedAt !== null) continue;
    const report = await world.drive(process.surely('close', (queue) => queue.close({ grace: '40s' })));
    if (process === living && report!.abandoned.length > 0) throw new Error('close abandoned something at rest');
    if (process.timers > 0) throw new Error(`${process.timers} timers are left after ${process.name} was closed`);
  }
  if (world.clock.pendingTimers > 0) throw new Error(`${world.clock.pendingTimers} timers are left`);
}
