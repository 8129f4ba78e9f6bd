/** For the bare engines: what was added while the engine was busy goes out as one batch. */
const inFlightMax = 2;
const batchMax = 500;

/** Adds one job text to the next batch; resolves when `send` has stored the batch. */
export function gatherer(send: (texts: string[]) => Promise<unknown>): (text: string) => Promise<void> {
  const texts: string[] = [];
  const waiting: (() => void)[] = [];
  let inFlight = 0;
  let due = false;
  function flush(): void {
    due = false;
    while (texts.length > 0 && inFlight < inFlightMax)
      void post(texts.splice(0, batchMax), waiting.splice(0, batchMax));
  }
  async function post(batch: string[], callers: (() => void)[]): Promise<void> {
    inFlight += 1;
    await send(batch);
    inFlight -= 1;
    for (const done of callers) done();
    flush();
  }
  return (text) =>
    new Promise((resolve) => {
      texts.push(text);
      waiting.push(resolve);
      if (due || inFlight >= inFlightMax) return;
      due = true;
      queueMicrotask(flush);
    });
}

/** Until nothing is left: takes a batch, calls `onJob` for each, and has the batch marked as done. */
export function cycle(
  exchange: (done: readonly string[]) => Promise<readonly string[]>,
  onJob: () => void,
): Promise<void> {
  return (async () => {
    let done: readonly string[] = [];
    do {
      done = await exchange(done);
      for (let i = 0; i < done.length; i++) onJob();
    } while (done.length > 0);
  })();
}
