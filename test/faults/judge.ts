/** What must hold in every world once it has come to rest, whatever went wrong before. */
import { systemQueue } from '../../src/core/names.js';
import type { EventRecord, StoredJob } from '../../src/core/store.js';
import type { Execution, World } from './world.js';

export interface Circumstances {
  /** No claim had a reason to lapse: its worker lived on, and was not told to stop. */
  readonly workersLived: boolean;
}

const terminal = ['completed', 'failed', 'cancelled', 'expired', 'replaced'];
/** The state that an event of an end stands for. */
const stateOf = (name: string): string => (name === 'replaced' ? 'failed' : name);

/** The faults found, in words; an empty list is a good one. */
export async function judge(world: World, { workersLived }: Circumstances): Promise<readonly string[]> {
  const jobs = new Map((await world.jobs()).map((job) => [job.id, job]));
  const events = await world.events();
  const ids = new Set([...jobs.keys(), ...events.flatMap(({ id }) => id ?? []), ...world.promised]);
  const faults: string[] = [];
  for (const id of ids) {
    const story = events.filter((event) => event.id === id);
    const executions = world.executions.filter((execution) => execution.id === id);
    const say = (fault: string): void =>
      void faults.push(`job ${id}: ${fault} [${story.map(({ name }) => name).join(' ')}]`);
    judgeStory(story, say);
    if (story.some(({ queue }) => queue === systemQueue)) continue; // no handler runs them
    judgePresence(world, id, jobs.get(id), story, say);
    judgeExecutions(story, executions, workersLived, say);
    const job = jobs.get(id);
    if (job) judgeJob(job, story, executions, say);
  }
  judgeOverlaps(world, (fault) => void faults.push(fault));
  return faults;
}

type Say = (fault: string) => void;

/** What each event may follow. A job that was handed back is claimed again without a word in between. */
const follows: { readonly [name: string]: readonly string[] } = {
  created: [''],
  claimed: ['created', 'claimed', 'progress', 'retried', 'snoozed', 'stalled'],
  progress: ['claimed', 'progress'],
  retried: ['claimed', 'progress'],
  snoozed: ['claimed', 'progress'],
  stalled: ['claimed', 'progress'],
  completed: ['claimed', 'progress'],
  failed: ['claimed', 'progress', 'stalled'],
  cancelled: ['created', 'claimed', 'progress', 'retried', 'snoozed', 'stalled'],
  expired: ['created', 'claimed', 'progress', 'retried', 'snoozed', 'stalled'],
  replaced: ['created', 'claimed', 'progress', 'retried', 'snoozed', 'stalled'],
};

function judgeStory(story: readonly EventRecord[], say: Say): void {
  let before = '';
  for (const { name } of story) {
    if (name !== 'removed' && !follows[name]?.includes(before)) say(`"${name}" came after "${before}"`);
    if (before === 'removed') say(`"${name}" came after it was removed`);
    before = name;
  }
  const ends = story.filter(({ name }) => terminal.includes(name)).length;
  if (ends > 1) say(`it ended ${ends} times`);
}

function judgePresence(
  world: World,
  id: string,
  job: StoredJob | undefined,
  story: readonly EventRecord[],
  say: Say,
): void {
  const isGone = story.some(({ name }) => name === 'removed');
  if (isGone && !world.removed.has(id)) say('it was removed, and nobody asked for it');
  if (job && isGone) say('it was removed and is there');
  if (!job && !isGone) say(world.promised.has(id) ? 'it was promised and is not there' : 'it vanished');
  if (job && !story.some(({ name }) => stateOf(name) === job.state)) say(`it is ${job.state}, and no event says so`);
}

/** Each claim runs its handler at most once; what the log says a handler did, one did. */
function judgeExecutions(
  story: readonly EventRecord[],
  executions: readonly Execution[],
  workersLived: boolean,
  say: Say,
): void {
  const count = (name: string): number => story.filter((event) => event.name === name).length;
  const epochs = new Set(executions.map(({ epoch }) => epoch));
  if (epochs.size !== executions.length) say('two handlers ran under one claim');
  if (executions.length > count('claimed')) say(`${executions.length} handlers ran for ${count('claimed')} claims`);
  const told = count('retried') + count('snoozed') + (endedByHandler(story) ? 1 : 0);
  if (executions.length < told) say(`the log tells of ${told} handlers, but ${executions.length} ran`);
  if (!workersLived) return;
  if (count('stalled') > 0) say('it stalled although its worker lived');
  const forced = story.some(({ name }) => name === 'removed');
  if (executions.length !== told && !forced) say(`${executions.length} handlers ran where ${told} were settled`);
}

function endedByHandler(story: readonly EventRecord[]): boolean {
  const names = story.map(({ name }) => name).filter((name) => name !== 'progress' && name !== 'removed');
  return terminal.includes(names.at(-1) ?? '') && names.at(-2) === 'claimed';
}

function judgeJob(job: StoredJob, story: readonly EventRecord[], executions: readonly Execution[], say: Say): void {
  if (job.state === 'pending' || job.state === 'processing') say(`it is still ${job.state}`);
  if (job.attempts > executions.length)
    say(`charged ${job.attempts} attempts, but ${executions.length} handlers began`);
  if (job.attempts > job.maxAttempts) say(`${job.attempts} attempts of ${job.maxAttempts}`);
  const stalled = story.filter(({ name }) => name === 'stalled').length;
  if (job.stalls > stalled) say(`charged ${job.stalls} stalls, but it stalled ${stalled} times`);
  if (job.state !== 'completed') return;
  if (job.attempts < 1) say('completed without an attempt');
  if (job.result !== String(job.epoch)) say(`its result ${job.result} is not of its last claim ${job.epoch}`);
  if (!executions.some(({ epoch, outcome }) => epoch === job.epoch && outcome === 'returned'))
    say('completed, but no handler of that claim returned');
}

/** No job runs twice at once, and no two of one exclusive key; a dead process runs nothing. */
function judgeOverlaps(world: World, say: Say): void {
  const lines = new Map<string, Execution[]>();
  for (const execution of world.executions) {
    for (const line of [`job ${execution.id}`, execution.exclusiveKey && `key ${execution.exclusiveKey}`])
      if (line) lines.set(line, [...(lines.get(line) ?? []), execution]);
  }
  for (const [line, executions] of lines) {
    let until = Number.NEGATIVE_INFINITY;
    for (const execution of executions) {
      if (execution.beganAt < until) say(`${line}: two handlers ran at once`);
      until = Math.max(until, overAt(execution));
    }
  }
}

function overAt({ endedAt, ignores, process, beganAt }: Execution): number {
  if (ignores) return beganAt;
  return Math.min(endedAt ?? Number.POSITIVE_INFINITY, process.killedAt ?? Number.POSITIVE_INFINITY);
}
