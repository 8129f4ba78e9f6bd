/** A door that code waits at: `arrived` tells that it is there, `open` lets it go on. At the end of everything nobody waits. */
export interface Door {
  readonly arrived: Promise<void>;
  pass(): Promise<void>;
  open(): void;
}

export function createDoor(ending: AbortSignal): Door {
  let arrive!: () => void;
  let open!: () => void;
  const arrived = new Promise<void>((resolve, reject) => {
    arrive = resolve;
    ending.addEventListener('abort', () => reject(ending.reason as Error), { once: true });
  });
  arrived.catch(() => {}); // whoever waits hears of it
  const opened = new Promise<void>((resolve) => {
    open = resolve;
    ending.addEventListener('abort', () => resolve(), { once: true });
  });
  return {
    arrived,
    async pass() {
      arrive();
      await opened;
    },
    open,
  };
}

/** Work that takes its time; the demo is to be read along. */
export function workFor(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
