// The judge itself: it passes a sound run, and finds each fault that is planted into it.
import { expect, test } from 'vitest';
import { type Evidence, judge, type JudgedJob } from './judge.js';
import type { Line, ReadLedger } from './ledger.js';

type Lines = readonly Line[];

const start = (id: string, epoch: number, at: number, type = 'plain'): Line => ({ line: 'start', id, type, epoch, at });
const end = (id: string, epoch: number, at: number, how: 'value' | 'threw' = 'value'): Line => ({
  line: 'end',
  id,
  epoch,
  how,
  at,
});
const refused = (id: string, epoch: number, at: number): Line => ({ line: 'refused', id, epoch, at });
const acked = (id: string, askedAt: number, type = 'plain'): Line => ({
  line: 'acked',
  id,
  type,
  askedAt,
  at: askedAt + 1,
});
const worker: Line = { line: 'worker', mayHold: 1 };

function completed(id: string, epoch: number, rest: Partial<JudgedJob> = {}): JudgedJob {
  return {
    id,
    type: 'plain',
    state: 'completed',
    epoch,
    attempts: 1,
    stalls: 0,
    result: { epoch },
    error: null,
    deduplicationKey: null,
    exclusiveKey: null,
    ...rest,
  };
}

/** Worker one is killed in the middle of `b`, worker two is stopped in the middle of `c`; both jobs run again. */
const ledgers: { readonly [name: string]: Lines } = {
  producer: [acked('a', 0), acked('b', 1), acked('c', 2), acked('k1', 3, 'keyed'), acked('k2', 3, 'keyed')],
  one: [worker, start('a', 1, 10), end('a', 1, 20), start('b', 2, 30)],
  two: [worker, start('c', 3, 30), end('c', 3, 2_000), refused('c', 3, 2_001)],
  three: [
    worker,
    start('b', 4, 1_100),
    end('b', 4, 1_110),
    start('c', 5, 1_120),
    end('c', 5, 1_130),
    start('k1', 6, 1_200, 'keyed'),
    end('k1', 6, 1_210),
    start('k2', 7, 1_220, 'keyed'),
    end('k2', 7, 1_230),
  ],
  fleet: [
    { line: 'kill', name: 'one', at: 35 },
    { line: 'stop', name: 'two', at: 40 },
    { line: 'resume', name: 'two', at: 1_900 },
  ],
};
const jobs: readonly JudgedJob[] = [
  completed('a', 1),
  completed('b', 4, { stalls: 1 }),
  completed('c', 5, { stalls: 1 }),
  completed('k1', 6, { type: 'keyed', exclusiveKey: 'k' }),
  completed('k2', 7, { type: 'keyed', exclusiveKey: 'k' }),
];

/** The sound run with other ledgers or other rows in the place of some. */
function withPlanted(planted: { [name: string]: Lines }, rows: readonly JudgedJob[] = []): Evidence {
  const read = Object.entries({ ...ledgers, ...planted }).map(([name, lines]): ReadLedger => ({ name, lines }));
  const replaced = new Set(rows.map(({ id }) => id));
  return { ledgers: read, jobs: [...jobs.filter(({ id }) => !replaced.has(id)), ...rows] };
}

const faultsOf = (evidence: Evidence): string[] => judge(evidence).faults.map((fault) => fault.split(':')[0]!);

test('a sound run has no faults, and its kills, stops, refusals and repeated runs are counted', () => {
  const { faults, figures } = judge(withPlanted({}));
  expect(faults).toEqual([]);
  expect(figures).toEqual({
    jobs: 5,
    acked: 5,
    runs: 7,
    kills: 1,
    stops: 1,
    blocks: 0,
    refused: 1,
    starved: 0,
    duplicates: 2,
  });
});

test('a refused run of a worker whose event loop was blocked is not put down to the machine', () => {
  const two: Lines = [
    worker,
    start('c', 3, 30),
    { line: 'block', name: 'two', at: 40 },
    { line: 'unblock', name: 'two', at: 1_900 },
    end('c', 3, 2_000),
    refused('c', 3, 2_001),
  ];
  const evidence = withPlanted({ two, fleet: [{ line: 'kill', name: 'one', at: 35 }] });
  expect(judge(evidence)).toMatchObject({ faults: [], figures: { stops: 0, blocks: 1, refused: 1, starved: 0 } });
});

test('an acknowledged job that is not in the store is lost', () => {
  const evidence = withPlanted({ producer: [...ledgers.producer!, acked('gone', 4)] });
  expect(judge(evidence).faults).toEqual(['lost: plain gone was acknowledged and is not in the store']);
});

test('a job that never ended, or failed without reason, is lost', () => {
  for (const state of ['pending', 'processing', 'failed', 'cancelled'] as const) {
    const waiting: JudgedJob = { ...completed('w', 0), state, attempts: 0, result: null };
    expect(faultsOf(withPlanted({}, [waiting]))).toEqual(['lost']);
  }
});

test('two runs that were both accepted are a double settlement', () => {
  // The stopped worker is not refused any more: its word and the other's both count.
  const evidence = withPlanted({ two: ledgers.two!.filter(({ line }) => line !== 'refused') });
  expect(judge(evidence).faults).toContain(
    'settled: plain c epoch 3 in two ended and was not refused, but the job is completed under epoch 5',
  );
});

test('a second settlement of a killed worker shows in the attempts', () => {
  expect(faultsOf(withPlanted({}, [completed('b', 4, { stalls: 1, attempts: 2 })]))).toContain('settled');
});

test('a stale result that was stored is a fault, whether the row has its epoch or only its value', () => {
  expect(faultsOf(withPlanted({}, [completed('c', 3, { stalls: 1 })]))).toContain('settled');
  expect(faultsOf(withPlanted({}, [completed('c', 5, { stalls: 1, result: { epoch: 3 } })]))).toEqual(['settled']);
});

test('a completed job without a run that returned is a fault', () => {
  expect(faultsOf(withPlanted({}, [completed('a', 9)]))).toContain('settled');
  const threw = withPlanted({ one: [worker, start('a', 1, 10), end('a', 1, 20, 'threw'), start('b', 2, 30)] });
  expect(faultsOf(threw)).toEqual(['settled']);
});

test('two runs of one job under one epoch are a fault', () => {
  const twice = withPlanted({ four: [worker, start('a', 1, 12), end('a', 1, 22)] });
  expect(faultsOf(twice)).toContain('claims');
});

test('an older epoch that starts after a newer one is a fault, unless its claim was lost', () => {
  const again = completed('f', 22, { type: 'flaky', attempts: 2 });
  const lines = [start('f', 22, 100, 'flaky'), end('f', 22, 110), start('f', 21, 200, 'flaky')];
  const late = withPlanted({ four: [worker, ...lines, end('f', 21, 210, 'threw')] }, [again]);
  expect(faultsOf(late)).toEqual(['claims']);
  const zombie = withPlanted({ four: [worker, ...lines, end('f', 21, 210), refused('f', 21, 211)] }, [
    { ...again, attempts: 2, stalls: 1 },
  ]);
  expect(faultsOf(zombie)).not.toContain('claims');
});

test('two runs of one key at the same time are an overlap', () => {
  const three = ledgers.three!.map((line) => (line.line === 'end' && line.id === 'k1' ? { ...line, at: 1_225 } : line));
  expect(judge(withPlanted({ three })).faults).toEqual([
    'overlap: keyed k2 epoch 7 in three started in k while keyed k1 epoch 6 in three ran',
  ]);
});

test('code that still runs after its claim has lapsed is no overlap', () => {
  const zombie = completed('z', 13, { type: 'keyed', exclusiveKey: 'z', stalls: 1 });
  const evidence = withPlanted(
    {
      four: [worker, start('z', 11, 100, 'keyed'), end('z', 11, 5_000), refused('z', 11, 5_001)],
      five: [worker, start('z', 13, 1_200, 'keyed'), end('z', 13, 1_210)],
    },
    [zombie],
  );
  expect(faultsOf(evidence)).toEqual([]);
  expect(judge(evidence).figures.starved).toBe(1);
});

test('a skipped call that no later run answers for is a fault', () => {
  const row = completed('s', 15, { type: 'skipped', deduplicationKey: 'page' });
  const four: Lines = [worker, start('s', 15, 100, 'skipped'), end('s', 15, 120)];
  const told = (askedAt: number): Evidence =>
    withPlanted({ four, producer: [...ledgers.producer!, acked('s', askedAt, 'skipped')] }, [row]);
  expect(faultsOf(told(90))).toEqual([]);
  expect(faultsOf(told(110))).toEqual(['fresh']);
});

test('a run that is neither an attempt nor a stall is a fault, and so is an attempt without a run', () => {
  expect(faultsOf(withPlanted({}, [completed('b', 4)]))).toEqual(['counted']);
  const never = completed('n', 0, { state: 'cancelled', type: 'skipped', error: { message: '', code: 'SUPERSEDED' } });
  expect(faultsOf(withPlanted({}, [never]))).toEqual(['counted']);
});

test('a run that a store may have lost by its policy is excused, and only that one', () => {
  const evidence = withPlanted({}, [completed('b', 4)]);
  expect(faultsOf({ ...evidence, mayBeLost: (at) => at === 30 })).toEqual([]);
  expect(faultsOf({ ...evidence, mayBeLost: (at) => at > 1_000 })).toEqual(['counted']);
});

test('runs of jobs that a store may have lost by its policy are no repeated ones', () => {
  const four: Lines = [worker, ...['f', 'g', 'h'].flatMap((id, n) => [start(id, 20 + n, 30), end(id, 20 + n, 40)])];
  const evidence = withPlanted({ four });
  expect(faultsOf(evidence)).toEqual(['duplicates']);
  expect(faultsOf({ ...evidence, mayBeLost: (at) => at === 30 })).toEqual([]);
});

test('more repeated runs than the kills and refusals explain are a fault', () => {
  const one: Lines = [
    worker,
    start('a', 1, 10),
    end('a', 1, 20),
    start('b', 2, 30),
    start('x', 2, 30),
    start('y', 2, 30),
  ];
  const three: Lines = [
    ...ledgers.three!,
    start('x', 8, 1_300),
    end('x', 8, 1_310),
    start('y', 9, 1_300),
    end('y', 9, 1_310),
  ];
  const rows = [completed('x', 8, { stalls: 1 }), completed('y', 9, { stalls: 1 })];
  const fault = 'duplicates: 4 runs were repeated; 1 by kills and 1 by refusals are explained';
  expect(judge(withPlanted({ one, three }, rows)).faults).toEqual([fault]);

  // A killed worker that claims ahead may hold hundreds; that excuses none of the others.
  const ahead: Lines = [{ line: 'worker', mayHold: 504 }, start('q', 30, 40, 'quick'), end('q', 30, 41)];
  const fleet: Lines = [...ledgers.fleet!, { line: 'kill', name: 'ahead', at: 50 }];
  const quick = completed('q', 30, { type: 'quick' });
  expect(judge(withPlanted({ one, three, ahead, fleet }, [...rows, quick])).faults).toEqual([fault]);
});
