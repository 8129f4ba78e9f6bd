/** What the queues of one factory share, such as a connection: made for the first of them, and given up with the last. */
export interface Shared<Needs, T> {
  /** Who has it must release it. */
  acquire(needs: Needs): Promise<T>;
  release(): Promise<void>;
}

export function createShared<Needs, T>(
  make: (needs: Needs) => Promise<T>,
  giveUp: (made: T) => Promise<unknown> | void,
): Shared<Needs, T> {
  let making: Promise<T> | null = null;
  let users = 0;

  async function release(): Promise<void> {
    users -= 1;
    if (users > 0 || !making) return;
    const last = making;
    making = null;
    const made = await last.catch(() => null);
    if (made !== null) await giveUp(made);
  }

  return {
    async acquire(needs) {
      users += 1;
      try {
        making ??= make(needs);
        return await making;
      } catch (error) {
        await release();
        throw error;
      }
    },
    release,
  };
}
