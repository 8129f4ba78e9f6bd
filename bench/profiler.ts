/** A stopwatch that samples the stack of this process while it runs. */
import { writeFileSync } from 'node:fs';
import { Session } from 'node:inspector';
import type { Stopwatch } from './stopwatch.js';

/** Writes a .cpuprofile after each stretch, so that the last and longest one stays. */
export function profiled(watch: Stopwatch, file: string): Stopwatch {
  const session = new Session();
  session.connect();
  session.post('Profiler.enable');
  session.post('Profiler.setSamplingInterval', { interval: 200 });
  const { start, stop } = { start: watch.start.bind(watch), stop: watch.stop.bind(watch) };
  let longest = 0;
  watch.start = () => {
    start();
    session.post('Profiler.start');
  };
  watch.stop = (jobs) => {
    session.post('Profiler.stop', (error, { profile }) => {
      if (error || profile.endTime - profile.startTime < longest) return;
      longest = profile.endTime - profile.startTime;
      writeFileSync(file, JSON.stringify(profile));
    });
    stop(jobs);
  };
  return watch;
}
