/**
 * Between instants and what the clocks of a time zone show. A "wall" time is what they show, read as if it were UTC.
 * Where clocks are put forward, some walls are never shown; where they are put back, some are shown twice.
 */

export interface Zone {
  /** The latest wall that was shown up to an instant, also where clocks were put back since. */
  latestWall(at: number): number;
  /** When a wall is shown: mostly once, twice where clocks go back; one that is left out counts as the end of the gap. */
  instantsOf(wall: number): readonly [number] | readonly [number, number];
  /** The last time within a day either side that clocks are put back: when, and from which offset to which. */
  putBack(near: number): { readonly at: number; readonly from: number; readonly to: number } | null;
}

const dayMs = 86_400_000;

/** Throws a RangeError for a name that the platform does not know. */
export function zoneOf(name: string): Zone {
  const offsetAt = offsetsOf(name);

  /** The first instant with the later offset: one change within the span is assumed, as clocks do not change twice a day. */
  function changeWithin(before: number, after: number): number {
    const later = offsetAt(after);
    let [low, high] = [before, after];
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (offsetAt(middle) === later) high = middle;
      else low = middle;
    }
    return high;
  }
  function putBack(near: number): ReturnType<Zone['putBack']> {
    const from = offsetAt(near - dayMs);
    const to = offsetAt(near + dayMs);
    return from > to ? { at: changeWithin(near - dayMs, near + dayMs), from, to } : null;
  }

  return {
    putBack,
    latestWall(at) {
      const wall = at + offsetAt(at);
      const change = putBack(at);
      return change && change.at <= at ? Math.max(wall, change.at + change.from - 1) : wall;
    },
    instantsOf(wall) {
      const before = offsetAt(wall - dayMs);
      const after = offsetAt(wall + dayMs);
      const first = wall - before;
      if (before === after) return [first];
      const second = wall - after;
      const isFirst = offsetAt(first) === before;
      const isSecond = offsetAt(second) === after;
      if (isFirst && isSecond) return [first, second];
      if (isFirst || isSecond) return [isFirst ? first : second];
      return [changeWithin(second, first)];
    },
  };
}

const minuteMs = 60_000;

function offsetsOf(name: string): (at: number) => number {
  if (name === 'UTC') return () => 0;
  const format = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' });
  return (at) => {
    const [, sign = '+', hours = '0', minutes = '0', seconds = '0'] =
      /GMT(?:([+-])(\d+):(\d+)(?::(\d+))?)?$/.exec(format.format(at)) ?? [];
    const ms = (Number(hours) * 60 + Number(minutes)) * minuteMs + Number(seconds) * 1_000;
    return sign === '-' ? -ms : ms;
  };
}
