/** The loops as tests: one per operation, and one that counts them. */
import { afterAll, expect, it } from 'vitest';
import { describeOn, type EngineName } from '../engines.js';
import { acting } from './acting.js';
import { createArena } from './arena.js';
import { allCells, type Share, type Tally } from './cells.js';
import { looking } from './looking.js';
import { producing } from './producing.js';
import { running } from './running.js';
import { scheduled } from './scheduling.js';
import { ending } from './subjects.js';

const timeout = 120_000;

/** `least`: cells cannot vanish unseen. */
export function faultLoops(engine: EngineName, least: number, share: Share = 'all'): void {
  const arena = createArena(engine);
  const tallies: Tally[] = [];
  const operations = Object.entries({ ...producing, ...running, ...acting, ...looking, ...scheduled, ...ending });

  describeOn(
    engine,
    `on ${engine}, whatever store call fails in whatever way, the rules hold and nothing is left after`,
    () => {
      it.each(operations.map((entry, turn) => [...entry, turn] as const))(
        '%s',
        { timeout },
        async (name, make, turn) => {
          const tally = await allCells(arena, make, (process.env.LASTOUT_CELLS as Share | undefined) ?? share, turn);
          expect(tally.cells, name).toBeGreaterThan(0);
          tallies.push(tally);
        },
      );

      it(`all in all at least ${least} times`, () => {
        const cells = tallies.reduce((sum, tally) => sum + tally.cells, 0);
        const calls = tallies.reduce((sum, tally) => sum + tally.calls, 0);
        const verbs = new Set(tallies.flatMap((tally) => [...tally.verbs]));
        console.log(
          `fault loops on ${engine}: ${cells} cells, ${operations.length} operations × ${calls} store calls (${[...verbs].sort().join(' ')})`,
        );
        expect(cells).toBeGreaterThanOrEqual(least);
      });
    },
  );
  afterAll(() => arena.dispose());
}
