import type { StopReport } from 'lastout';
import type { LogLine } from './logger.js';

/** Tells on the terminal what happens, and counts what is too much to tell. */
export class Narrator {
  /** Changes that asked for a build and found one waiting already. */
  skipped = 0;

  constructor(private readonly write: (text: string) => void) {}

  say(text: string): void {
    this.write(text);
  }

  /** The log of the host and of lastout itself. */
  log({ level, name, message, fields }: LogLine): void {
    if (message === 'Skipping duplicate job') this.skipped++;
    else if (level === 'warn' || level === 'error') this.write(`  ! ${name} ${message} ${JSON.stringify(fields)}`);
    else if (name.endsWith('DynamicRouteGenerator')) this.write(`  · ${message}`);
  }

  goodbye(report: StopReport, subscriptions: number, leftBehind: number): void {
    const abandoned = report.abandoned.length;
    this.write(
      `\nGood night. Subscriptions ${subscriptions}, builds abandoned ${abandoned}, left behind ${leftBehind}.`,
    );
  }
}
