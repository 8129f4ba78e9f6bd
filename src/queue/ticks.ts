/** When a schedule ticks: pure functions of its rhythm and of instants. The one file that knows croner. */
import { Cron } from 'croner';
import { type Duration, show, toMs } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { ownOptions } from '../core/own-options.js';
import { type Zone, zoneOf } from './wall-clock.js';

export type Missed = 'skip' | 'once' | 'all';

/** When a schedule ticks. Times of a cron expression are read in its time zone, UTC unless given. */
export type ScheduleWhen = (
  | { cron: string; timeZone?: string; every?: never }
  | { every: Duration; cron?: never; timeZone?: never }
) & { missed?: Missed };

/** As it is stored. */
export type Rhythm = { readonly cron: string; readonly timeZone: string } | { readonly everyMs: number };

export interface Plan {
  /** Ticks to fire, oldest first. */
  readonly fire: readonly number[];
  /** Every tick up to here is dealt with. */
  readonly seen: number;
  /** The next tick; null: there is none any more. */
  readonly next: number | null;
}

const missedWays: readonly Missed[] = ['skip', 'once', 'all'];
const everyMinMs = 1_000;
const cronLengthMax = 500;
/** A tick that is handled within this time is on time. */
const onTimeMs = 60_000;
/** Of many missed ticks, `all` fires the newest. */
const missedMax = 100;
/** Clocks of processes may differ by so much; ticks further ahead were seen by a clock that was wrong. */
const aheadMaxMs = 3_600_000;

export function isAstray(seen: number, now: number): boolean {
  return seen > now + aheadMaxMs;
}

/** `remembered`: ticks up to there are dealt with. */
export function planTicks(rhythm: Rhythm, missed: Missed, remembered: number, now: number): Plan {
  const seen = isAstray(remembered, now) ? now : remembered;
  const ticks = ticksOf(rhythm);
  const due = ticks.newest(seen, now, missed === 'all' ? missedMax : 1);
  const newest = due.at(-1);
  const fire = missed === 'skip' ? due.filter((tick) => now - tick <= onTimeMs) : due;
  const nowSeen = newest ?? seen;
  return { fire, seen: nowSeen, next: ticks.next(nowSeen) };
}

export function nextTick(rhythm: Rhythm, after: number): number | null {
  return ticksOf(rhythm).next(after);
}

export function readWhen(when: ScheduleWhen, now: number): { rhythm: Rhythm; missed: Missed } {
  const given: { cron?: unknown; timeZone?: unknown; every?: unknown; missed?: Missed } = ownOptions(
    when ?? null,
    ['cron', 'timeZone', 'every', 'missed'],
    'When a schedule ticks',
  );
  const { missed = 'once' } = given;
  if (!missedWays.includes(missed))
    throw new LastoutError('UNKNOWN_OPTION', `missed is ${show(missed)}; it is one of ${missedWays.join(', ')}.`);
  if ((given.cron === undefined) === (given.every === undefined))
    throw new LastoutError('INVALID_CRON', 'A schedule needs either a cron expression or every, and not both.');
  if (given.cron !== undefined) return { rhythm: readCron(given.cron, given.timeZone, now), missed };
  if (given.timeZone !== undefined)
    throw new LastoutError('INVALID_TIMEZONE', 'timeZone goes with cron; every is the same in all time zones.');
  const everyMs = toMs(given.every, 'every', 'INVALID_DURATION', { min: everyMinMs });
  return { rhythm: { everyMs }, missed };
}

function readCron(given: unknown, timeZone: unknown, now: number): Rhythm {
  const refuse = (fault: string, cause?: unknown): never => {
    const advice = 'Give five fields (minute hour day month weekday) or six with seconds first, such as "0 9 * * 1-5".';
    throw new LastoutError('INVALID_CRON', `The cron expression ${show(given)} ${fault}. ${advice}`, undefined, cause);
  };
  if (typeof given !== 'string') return refuse('is no text');
  const cron = given.trim().replace(/\s+/g, ' ');
  if (cron.length > cronLengthMax) return refuse(`is longer than ${cronLengthMax} characters`);
  if (!cron.startsWith('@') && ![5, 6].includes(cron.split(' ').length)) return refuse('has another number of fields');
  const rhythm = { cron, timeZone: timeZone === undefined ? 'UTC' : checkTimeZone(timeZone) };
  try {
    compile(cron);
  } catch (error) {
    refuse('cannot be read', error);
  }
  return nextTick(rhythm, now) === null ? refuse('names no time to come') : rhythm;
}

function checkTimeZone(name: unknown): string {
  try {
    // Offsets such as "+02:00" are known to some platforms only.
    if (typeof name !== 'string' || !/^[A-Za-z]/.test(name)) throw new RangeError('no name');
    zoneOf(name).latestWall(0);
    return name;
  } catch (error) {
    const message = `timeZone is ${show(name)}; give a name of the IANA database, such as "Europe/Berlin".`;
    throw new LastoutError('INVALID_TIMEZONE', message, undefined, error);
  }
}

interface Ticks {
  next(after: number): number | null;
  /** At most `limit` ticks after `after` and not after `upTo`: the newest, oldest first. */
  newest(after: number, upTo: number, limit: number): number[];
}

function ticksOf(rhythm: Rhythm): Ticks {
  return 'everyMs' in rhythm ? everyTicks(rhythm.everyMs) : cronTicks(rhythm.cron, rhythm.timeZone);
}

/** What was seen last is always a tick (or the start), so the phase stays. */
function everyTicks(everyMs: number): Ticks {
  return {
    next: (after) => after + everyMs,
    newest(after, upTo, limit) {
      const last = Math.floor((upTo - after) / everyMs);
      const first = Math.max(1, last - limit + 1);
      return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => after + (first + i) * everyMs);
    },
  };
}

/**
 * The expression is read on the wall, where time has no gaps, and each wall is then turned into its instant: one that
 * clocks leave out ticks right after the gap, one that they show twice ticks the first time. Where the hour may be any,
 * both count: who asks for every five minutes means those of the second showing too.
 */
function cronTicks(cron: string, timeZone: string): Ticks {
  const { walls, everyHour } = compile(cron);
  const zone = cachedZone(timeZone);
  const instantsOf = (wall: number): readonly number[] => zone.instantsOf(wall).slice(0, everyHour ? 2 : 1);

  /** Of the second showing, where clocks are put back. */
  function nextShownAgain(after: number): number {
    const change = everyHour ? zone.putBack(after) : null;
    if (!change) return Number.POSITIVE_INFINITY;
    const { at, from, to } = change;
    const wall = walls.after(Math.max(after, at - 1) + to);
    return wall !== null && wall < at + from ? wall - to : Number.POSITIVE_INFINITY;
  }
  return {
    next(after) {
      const wall = walls.after(zone.latestWall(after));
      const shownFirst = wall === null ? Number.POSITIVE_INFINITY : zone.instantsOf(wall)[0];
      const next = Math.min(shownFirst, nextShownAgain(after));
      return next === Number.POSITIVE_INFINITY ? null : next;
    },
    newest(after, upTo, limit) {
      const found = new Set<number>();
      for (let below = zone.latestWall(upTo) + 1; ; ) {
        const page = walls.before(below, limit);
        for (const instant of page.flatMap(instantsOf)) if (instant > after && instant <= upTo) found.add(instant);
        if (page.length < limit) break;
        below = page.at(-1)!;
        // No earlier wall is shown after this; where clocks are put back, some of the found ones are older still.
        const latest = instantsOf(below).at(-1)!;
        if (latest <= after || [...found].filter((instant) => instant >= latest).length >= limit) break;
      }
      return [...found].sort((a, b) => a - b).slice(-limit);
    },
  };
}

interface Walls {
  after(wall: number): number | null;
  /** Newest first. */
  before(wall: number, limit: number): number[];
}

interface Compiled {
  readonly walls: Walls;
  /** The expression names every hour. */
  readonly everyHour: boolean;
}

/** The last value of each field: second, minute, hour, day, month, weekday. */
const lastValues = [59, 59, 23, 31, 12, 6] as const;

/** `n/step` is from n to the end of the field, as other crons read it; croner wants that end, or would take more than this. */
function withEnds(expression: string): string {
  const fields = expression.split(' ');
  const skipped = lastValues.length - fields.length;
  return fields
    .map((field, index) =>
      field.replace(/(?<![^,])(\d{1,2}|[A-Za-z]{3})\/(?=\d+(?![^,]))/g, (_, first: string) => {
        // Sunday is 0 and 7.
        const last = first === '7' && index + skipped === 5 ? 7 : lastValues[index + skipped];
        return `${first}-${last}/`;
      }),
    )
    .join(' ');
}

const compile = remembering((expression: string): Compiled => {
  const cron = new Cron(withEnds(expression), { mode: '5-or-6-parts', utcOffset: 0 });
  const fields = (cron.getPattern() ?? expression).trim().split(/\s+/);
  return {
    everyHour: ['*', '?', '*/1', '0-23', '0-23/1'].includes(fields.at(-4)!),
    walls: {
      after: (wall) => cron.nextRun(new Date(wall))?.getTime() ?? null,
      // It looks from the whole second on, and leaves that out.
      before: (wall, limit) =>
        cron.previousRuns(limit, new Date(Math.ceil(wall / 1_000) * 1_000)).map((date) => date.getTime()),
    },
  };
});

const cachedZone: (name: string) => Zone = remembering(zoneOf);

/** A handful of expressions and zones serve all schedules of a process; what throws is not kept. */
function remembering<T>(make: (text: string) => T): (text: string) => T {
  const known = new Map<string, T>();
  return (text) => {
    const found = known.get(text);
    if (found !== undefined) return found;
    if (known.size >= 1_000) known.clear();
    const made = make(text);
    known.set(text, made);
    return made;
  };
}
