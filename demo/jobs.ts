/** The job types of the demo. The processes that run them add the code with `handle`. */
import { defineJob } from 'lastout';

/** Act 1: however many changes, one build waits at most. */
export const siteBuild = defineJob<{ site: string }, { from: number; to: number }>('site-build', {
  deduplication: 'skip',
  deduplicationKey: ({ site }) => site,
  subject: ({ site }) => `site:${site}`,
});

/** Act 2: long enough to lose its worker on the way. */
export const report = defineJob<{ pages: number }, { pages: number; pid: number }>('report', {});

/** Act 3: jobs about a trip. */
export const dispatch = defineJob<{ trip: string; step: string }, { sent: string }>('dispatch', {
  subject: ({ trip }) => `trip:${trip}`,
});
