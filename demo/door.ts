/** A door that code waits at: `arrived` tells that it is there, `open` lets it go on. */
export interface Door {
  readonly arrived: Promise<void>;
  pass(): Promise<void>;
  open(): void;
}

export function createDoor(): Door {
  let arrive!: () => void;
  let open!: () => void;
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  const opened = new Promise<void>((resolve) => {
    open = resolve;
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
