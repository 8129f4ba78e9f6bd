// Enqueues, claims and endings beside endSubject, by several connections at once and in real time: after the certificate
// nothing of the subject comes in, and nothing starts but what the certificate lists.
import { describe, expect, it } from 'vitest';
import {
  type Certificate,
  defineJob,
  type JobOptions,
  type LastoutError,
  open,
  type Queue,
  snooze,
} from '../src/index.js';
import { emptyStore, type EngineName, engines } from './engines.js';
import { closedAfterwards } from './support.js';
import { eventually } from './worker-support.js';

const rounds = 4;
const connections = 3;
const enough = 40;

/** Each way of coming in. */
const ways: readonly JobOptions[] = [
  {},
  { delay: 5 },
  { deduplication: 'skip', deduplicationKey: 'k' },
  { deduplication: 'coalesce', deduplicationKey: 'k' },
  { deduplication: 'replace', deduplicationKey: 'k' },
  { exclusiveKey: 'x' },
  { attempts: 5, backoff: { type: 'fixed', base: 0 } },
];

interface Round {
  readonly subject: string;
  readonly started: string[];
  /** How many had started when the certificate came. */
  startedBefore: number;
  certificate: Certificate | null;
  accepted: number;
  refused: number;
}

async function queuesOn(engine: EngineName): Promise<Queue[]> {
  const { connect } = await emptyStore[engine]();
  const factory = engine === 'memory' ? connect() : null;
  const opened = Array.from({ length: connections }, () =>
    open(factory ?? connect(), { cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY } }),
  );
  return (await Promise.all(opened)).map((queue) => closedAfterwards(queue));
}

const racing = (current: () => Round) =>
  defineJob<{ n: number }, unknown>('races', {
    run({ job, input }) {
      const round = current();
      if (job.subject === round.subject) round.started.push(job.id);
      if (input.n % 7 === 0) throw new Error('broken');
      return input.n % 11 === 0 ? snooze(1) : null;
    },
  });

/** Comes in again and again, until it has been refused a few times after the certificate. */
async function produce(queue: Queue, round: Round, type: ReturnType<typeof racing>, first: number): Promise<void> {
  for (let n = first, after = 0; after < 3; n += 1) {
    // A store in this process answers within the turn: the others have theirs.
    await new Promise((resolve) => setImmediate(resolve));
    const isAfter = round.certificate !== null;
    const outcome = await queue
      .enqueue(type, { n }, { ...ways[n % ways.length], subject: round.subject })
      .then(() => 'accepted' as const)
      .catch((error: unknown) => (error as LastoutError).code);
    if (outcome === 'accepted') round.accepted += 1;
    else {
      expect(outcome).toBe('SUBJECT_ENDED');
      round.refused += 1;
    }
    if (isAfter) expect(outcome).toBe('SUBJECT_ENDED');
    if (isAfter) after += 1;
  }
}

async function play(queues: readonly Queue[], round: Round, type: ReturnType<typeof racing>): Promise<void> {
  const producers = queues.map((queue, index) => produce(queue, round, type, index * 1_000 + 1));
  await eventually(() => round.accepted >= enough, 'jobs on their way');
  round.certificate = await queues[0]!.endSubject(round.subject, 'over');
  round.startedBefore = round.started.length;
  await Promise.all(producers);
  // What slipped in is ended where it is claimed; what is delayed becomes due.
  const isOver = async (): Promise<boolean> =>
    (await queues[1]!.find({ subject: round.subject, state: ['pending', 'processing'] })).items.length === 0;
  await eventually(isOver, 'the end of all jobs of the subject', 30_000);
}

describe.each(engines)('racing with endSubject on %s', (engine) => {
  it('S10: after the certificate no job of the subject starts, comes in or stays', { timeout: 120_000 }, async () => {
    const queues = await queuesOn(engine);
    let round: Round;
    const type = racing(() => round);
    for (const queue of queues) await queue.work([type], { concurrency: 3, poll: '20ms' });
    for (let n = 0; n < rounds; n++) {
      round = {
        ...{ subject: `trip:${n}`, started: [], startedBefore: 0, certificate: null, accepted: 0, refused: 0 },
      };
      await play(queues, round, type);
      const { underWay, cancelled } = round.certificate!;
      const late = round.started.slice(round.startedBefore);
      expect(late.filter((id) => !underWay.includes(id))).toEqual([]);
      expect(round.refused).toBeGreaterThan(0);
      expect(cancelled + round.started.length).toBeGreaterThan(0);
      expect(await queues[2]!.endSubject(round.subject, 'over')).toMatchObject({ cancelled: 0, underWay: [] });
    }
  });
});
