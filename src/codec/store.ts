/**
 * A store behind a codec: what handlers and callers say (input, result, error, log, progress, memo, reasons) goes in
 * coded and comes out plain; what the store decides by (names, keys, subjects, times, metadata) passes as it is.
 */
import { type Codec, whyUnreadable } from '../core/coded.js';
import type { Ending } from '../core/ending.js';
import { LastoutError } from '../core/errors.js';
import type { JobError, Logger } from '../core/job.js';
import type {
  Claimed,
  EventRecord,
  Inserted,
  InsertOptions,
  JobFilter,
  LogLine,
  Move,
  MoveRequest,
  NewJob,
  Note,
  Settlement,
  Store,
  StoredJob,
  Why,
} from '../core/store.js';
import { describeThrown } from '../core/thrown.js';
import { isOurLine, lineLost, resultLost } from './our-words.js';
import { retryAnew } from './retry.js';
import { type OwnPlace, type Texts, textsOf } from './texts.js';

export function codedStore(store: Store, codec: Codec, logger: Logger): Store {
  const texts = textsOf(codec, logger);
  const sealJob = (job: NewJob): NewJob => ({
    ...job,
    input: texts.seal(job.input, { id: job.id, field: 'input' }),
  });
  const openJobs = (jobs: readonly StoredJob[]): StoredJob[] => jobs.map((job) => openJob(texts, job));
  const openClaimed = (claimed: Claimed): Claimed => ({ ...claimed, jobs: openJobs(claimed.jobs) });
  /** An ending that is sent again must be the same text again: its claim is asked whether it was this one. */
  const sealed = new WeakMap<Ending, { readonly id: string; readonly ending: Ending }>();
  function endingOf({ id, ending }: Settlement): Ending {
    const known = sealed.get(ending);
    if (known?.id === id) return known.ending;
    const made = sealEnding(texts, ending, id);
    sealed.set(ending, { id, ending: made });
    return made;
  }

  /** Null: it is left out, alone. An ending is always sealed; what goes with it may not be. */
  function sealSettlement({ memo, then, ...settlement }: Settlement): Settlement | null {
    try {
      return {
        ...settlement,
        ending: endingOf(settlement),
        ...(memo !== undefined && { memo: texts.seal(memo, { id: settlement.id, field: 'memo' }) }),
        ...(then !== undefined && { then: then.map(sealJob) }),
      };
    } catch (error) {
      logger.error('The codec failed', { what: 'a settlement', error: describeThrown(error).message });
      return null;
    }
  }

  return {
    ...store,
    get durability() {
      return store.durability;
    },
    insert: (jobs, options) => insertSealed(store, jobs, options, sealJob),
    claim: async (request) => openClaimed(await store.claim(request)),
    async extend(request) {
      const { cancelled, ...rest } = await store.extend(request);
      return { ...rest, cancelled: cancelled.map(({ id, reason }) => ({ id, reason: texts.openReason(reason) })) };
    },
    async settle(request) {
      const sealed = request.settlements.map(sealSettlement);
      const settlements = sealed.filter((one) => one !== null);
      const { answers, claimed } = await store.settle({ ...request, settlements });
      const given = answers.values();
      return {
        answers: sealed.map((one) => (one === null ? 'UNSERIALIZABLE' : given.next().value!)),
        claimed: claimed && openClaimed(claimed),
      };
    },
    move: async (request) =>
      request.move.kind === 'retry'
        ? retryAnew(store, texts, request, request.move, logger)
        : store.move({ ...request, move: sealMove(texts, request) }),
    fence: (subject, fence) => store.fence(subject, { ...fence, reason: texts.sealReason(fence.reason) }),
    async find(request) {
      const { jobs, next } = await store.find(request);
      return { jobs: openJobs(jobs), next };
    },
    async readEvents(request) {
      const page = await store.readEvents(request);
      return { ...page, events: page.events.map((event) => openEvent(texts, event)) };
    },
    readLines: async (id) => (await store.readLines(id)).map((line) => openLine(texts, line, id)),
    readWhy: async (id) => openWhy(texts, await store.readWhy(id)),
    async readOverdue(request) {
      const page = await store.readOverdue(request);
      return { ...page, jobs: openJobs(page.jobs) };
    },
    note: (owner, notes) =>
      store.note(
        owner,
        notes.map((note) => sealNote(texts, note)),
      ),
  };
}

/** Calls the store in the same turn, as an insert in a caller's transaction needs; a refusal is one job's alone. */
function insertSealed(
  store: Store,
  jobs: readonly NewJob[],
  options: InsertOptions,
  seal: (job: NewJob) => NewJob,
): Promise<readonly Inserted[]> {
  const answers = new Map<number, Inserted>();
  const sealed: NewJob[] = [];
  for (const [index, job] of jobs.entries()) {
    try {
      sealed.push(seal(job));
    } catch (error) {
      const { code, message } = error as LastoutError;
      if (options.atomic) return Promise.reject(new LastoutError(code, `Job ${index}: ${message}`, { index }, error));
      answers.set(index, { id: job.id, outcome: 'refused', code, message });
    }
  }
  if (answers.size === 0) return store.insert(sealed, options);
  if (sealed.length === 0) return Promise.resolve([...answers.values()]);
  return store.insert(sealed, options).then((given) => {
    const rest = given.values();
    return jobs.map((_, index) => answers.get(index) ?? rest.next().value!);
  });
}

/** The job ends whatever the codec does: then with an error that says so, in clear and without a word of its own. */
function sealEnding(texts: Texts, ending: Ending, id: string): Ending {
  if ('error' in ending) return { ...ending, ...texts.sealError(ending.error, id) };
  if (ending.kind !== 'complete') return ending;
  const result = texts.trySeal(ending.result, { id, field: 'result' });
  return result === null ? { kind: 'exhaust', error: resultLost } : { kind: 'complete', result };
}

function sealMove(texts: Texts, { move, filter }: MoveRequest): Move {
  if (move.kind === 'confirm') return { ...move, memo: move.memo === null ? null : sealMemo(texts, move.memo, filter) };
  return 'reason' in move && move.reason !== undefined ? { ...move, reason: texts.sealReason(move.reason) } : move;
}

/** Of one job: a memo that others had as well could be bound to none of them. */
function sealMemo(texts: Texts, memo: string, { ids }: JobFilter): string {
  if (ids?.length !== 1) throw new Error('A job is confirmed by its id, one at a time');
  return texts.seal(memo, { id: ids[0]!, field: 'memo' });
}

/** Message and fields go together; a note never fails its job. */
function sealNote(texts: Texts, { progress, lines, ...note }: Note): Note {
  const { id } = note;
  return {
    ...note,
    progress: progress === null ? null : texts.trySeal(progress, { id, field: 'progress' }),
    lines: lines.map(({ message, fields }) => {
      const both = texts.trySeal(JSON.stringify([message, fields]), { id, field: 'log' });
      return both === null ? lineLost : { message: '', fields: both };
    }),
  };
}

function openLine(texts: Texts, line: LogLine, id: string): LogLine {
  if (isOurLine(line)) return line;
  const text = texts.open(line.fields ?? line.message, { id, field: 'log' });
  if (text === (line.fields ?? line.message)) return line;
  if (whyUnreadable(text) !== null) return { ...line, message: '', fields: text };
  const [message, fields] = JSON.parse(text) as [string, string | null];
  return { ...line, message, fields };
}

function openEvent(texts: Texts, event: EventRecord): EventRecord {
  const id = event.id ?? '';
  if (event.error) return { ...event, error: texts.openError(event.error, id) };
  if (event.progress === undefined) return event;
  return { ...event, progress: texts.open(event.progress, { id, field: 'progress' }) };
}

function openWhy(texts: Texts, why: Why | null): Why | null {
  if (why?.job) return { ...why, job: openJob(texts, why.job) };
  return why?.gone?.reason ? { ...why, gone: { ...why.gone, reason: texts.openReason(why.gone.reason) } } : why;
}

function openJob(texts: Texts, job: StoredJob): StoredJob {
  const { id } = job;
  const reason = (text: string | null): string | null => (text === null ? null : texts.openReason(text));
  const open = (text: string | null, field: OwnPlace['field']): string | null =>
    text === null ? null : texts.open(text, { id, field });
  return {
    ...job,
    input: texts.open(job.input, { id, field: 'input' }),
    result: open(job.result, 'result'),
    error: job.error === null ? null : JSON.stringify(texts.openError(JSON.parse(job.error) as JobError, id)),
    progress: open(job.progress, 'progress'),
    memo: open(job.memo, 'memo'),
    cancelReason: reason(job.cancelReason),
    heldReason: reason(job.heldReason),
  };
}
