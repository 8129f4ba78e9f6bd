/** `thisTurn.then(next)`: later in this turn, after those who wait already. queueMicrotask costs more than twice as much. */
export const thisTurn: Promise<void> = Promise.resolve();
