/** The rooms of provider.ts as a resource, and how a holder tells it what it holds. */
import { defineResource } from '../../src/index.js';

/** Gone already is a success; not allowed, broken and out of time are not. */
export function roomsOf(port: number, now: () => number) {
  async function ask(path: string, signal: AbortSignal | null): Promise<unknown> {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, { signal, method: 'POST' });
    const body: unknown = await response.json();
    if (response.ok || response.status === 404) return body;
    throw new Error(`The provider answers ${response.status}`);
  }
  const room = defineResource<null>('room', {
    create: async (_spec, { name, signal }) => (await ask(`/create?name=${name}`, signal)) as { name: string },
    destroy: async ({ name, signal }) => void (await ask(`/destroy?name=${name}`, signal)),
    async list(signal) {
      const listed = await ask('/list', signal);
      if (!Array.isArray(listed)) throw new Error('The list is cut off');
      // The provider has a clock of its own: what counts is how old something is.
      return (listed as { name: string; createdAt: number }[]).map(({ name, createdAt }) => ({
        name,
        createdAt: new Date(now() - (Date.now() - createdAt)),
      }));
    },
  });
  return {
    room,
    hold: (name: string) => ask(`/hold?name=${name}&pid=${process.pid}`, null),
    letGo: (name: string) => ask(`/let-go?name=${name}`, null),
  };
}
