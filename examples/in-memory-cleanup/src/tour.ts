import { defineJob, type JobType } from 'lastout';
import { type FakeClock, fakeClock } from 'lastout/testing';
import { dossier, type Pitch } from './dossier.js';
import { InMemoryJobQueue } from './in-memory-job-queue.js';
import type { Place } from './places.js';
import { formatTable, policyTable } from './policy-table.js';

type Say = (text: string) => void;

/** As many jobs as one likes, without an artifact each. */
const ping = defineJob<Pitch, null>('ping', { run: () => null });

/**
 * Hours would pass before anything is to be seen, so the clock is moved by hand. All else is as in production. Told to end, the
 * tour throws the reason at its next step.
 */
export class Tour {
  private readonly ids: string[] = [];

  private constructor(
    private readonly place: Place,
    private readonly jobs: InMemoryJobQueue,
    private readonly clock: FakeClock,
    private readonly log: Log,
    private readonly say: Say,
    private readonly ending: AbortSignal,
  ) {}

  static async run(place: Place, say: Say, ending: AbortSignal, story: (tour: Tour) => Promise<void>): Promise<void> {
    ending.throwIfAborted();
    const clock = fakeClock(new Date());
    const log = new Log();
    say(`${place.title}\n\nOpening the queue; its cleanup starts by itself`);
    const jobs = await InMemoryJobQueue.open({}, { clock, logger: log.logger, artifacts: place.artifacts });
    try {
      await clock.settle();
      log.tell(say);
      await story(new Tour(place, jobs, clock, log, say, ending));
      const { clean } = await jobs.queue.audit();
      say(`Good night. The books ${clean ? 'are balanced: created = released + stored' : 'do NOT balance'}.\n`);
    } finally {
      await whileMoving(clock, jobs.queue.close());
    }
  }

  showPolicies(): void {
    this.say(`\n${formatTable(policyTable(this.jobs.config))}\n`);
  }

  async writeDossiers(count: number, title: string): Promise<void> {
    await this.work(dossier, count, title);
  }

  async ping(count: number, title: string): Promise<void> {
    await this.work(ping, count, title);
  }

  async pass(hours: number, title: string): Promise<void> {
    this.say(title);
    for (let hour = 0; hour < hours; hour++) {
      this.ending.throwIfAborted();
      await this.clock.advance('1h');
    }
    await this.show();
  }

  async wait(title: string): Promise<void> {
    await this.clock.advance('1s');
    this.say(title);
    await this.show();
  }

  private async work(type: JobType<Pitch, unknown>, count: number, title: string): Promise<void> {
    this.say(title);
    const worker = await this.jobs.work([type], 20);
    for (let n = 1; n <= count; n++) {
      this.ending.throwIfAborted();
      this.ids.push((await this.jobs.add(type, { title: `Number ${n}`, pitch: 'Bread that bakes itself.' })).id);
    }
    for (let busy = true; busy; busy = await this.isBusy()) await this.clock.advance(1);
    await worker.stop();
    await this.show();
  }

  private async isBusy(): Promise<boolean> {
    this.ending.throwIfAborted();
    const { queued, running } = await this.jobs.stats();
    return queued + running > 0;
  }

  private async show(): Promise<void> {
    this.log.tell(this.say);
    const { completed, total } = await this.jobs.stats();
    const artifacts = await this.place.count(this.jobs, this.ids);
    this.say(`  ${total} jobs in memory (${completed} completed), ${artifacts}\n`);
  }
}

/** What was logged since it was last told, and how often. */
class Log {
  private readonly times = new Map<string, number>();
  private readonly note = (message: string): void => void this.times.set(message, (this.times.get(message) ?? 0) + 1);
  readonly logger = { debug: () => {}, info: this.note, warn: this.note, error: this.note };

  tell(say: Say): void {
    for (const [message, times] of this.times) say(`  [log] ${message}${times > 1 ? ` (${times} times)` : ''}`);
    this.times.clear();
  }
}

/** What waits by the clock needs somebody to move it. */
async function whileMoving(clock: FakeClock, work: Promise<unknown>): Promise<void> {
  let over = false;
  const move = async (): Promise<void> => {
    while (!over) await clock.advance(1);
  };
  await Promise.all([work.finally(() => (over = true)), move()]);
}
