/** Act 3. A trip is called off: what waits for it ends at once, what runs for it is told through its signal. */
import { handle, type Queue } from 'lastout';
import { createDoor, workFor } from './door.js';
import { dispatch } from './jobs.js';
import type { Stage } from './stage.js';
import type { Expected } from './verify.js';

const steps = ['driver', 'vehicle', 'passenger', 'invoice', 'survey'];

export async function cancelledSubject(queue: Queue, stage: Stage, ending: AbortSignal): Promise<readonly Expected[]> {
  stage.act(3, 'A subject is cancelled: trip:42 is called off, trip:7 is not');
  const door = createDoor(ending);
  const worker = await queue.work(
    [
      handle(dispatch, async ({ input, signal }) => {
        stage.tell('▶', `trip:${input.trip} calls the ${input.step}`);
        if (input.trip !== '42') return { sent: input.step };
        const told = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
        await door.pass();
        await told;
        stage.tell('↻', `trip:${input.trip} hears its signal`, 'it calls the driver back, and gives up');
        await workFor(200);
        throw signal.reason;
      }),
    ],
    { concurrency: 1 },
  );
  const first = await queue.enqueue(dispatch, { trip: '42', step: steps[0]! });
  await door.arrived;
  const waiting = await queue.enqueueMany(
    steps.slice(1).map((step) => ({ type: dispatch, input: { trip: '42', step } })),
  );
  const other = await queue.enqueue(dispatch, { trip: '7', step: 'driver' });
  stage.tell('+', `${waiting.length} more wait for trip:42`, 'and one for trip:7');

  const { items } = await queue.cancel({ subject: 'trip:42' }, { reason: 'the trip was called off' });
  const count = (outcome: string): number => items.filter((item) => item.outcome === outcome).length;
  stage.tell('✗', 'cancel subject trip:42', `${count('cancelled')} cancelled at once, ${count('requested')} requested`);
  door.open();

  const running = await queue.wait(first.id);
  stage.tell('✓', `what ran is ${running.state}`, `${running.error?.code ?? ''}: ${running.error?.message ?? ''}`);
  const kept = await queue.wait(other.id);
  await worker.stop();
  stage.sum(`${items.length} jobs of trip:42 ended, trip:7 ${kept.state}`);
  return [
    ...[first, ...waiting].map(({ id }): Expected => ({ id, type: 'dispatch', state: 'cancelled' })),
    { id: other.id, type: 'dispatch', state: 'completed', result: { sent: 'driver' } },
  ];
}
