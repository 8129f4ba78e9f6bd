/** Which jobs this worker holds under which claim, and how long it may trust it by its own monotonic clock. */
export interface Claims {
  /** A job is held under its newest claim only. */
  add(epoch: number, ids: readonly string[], trustUntil: number): void;
  /** Tells that a job is settled or lost; an empty claim is forgotten. */
  forget(epoch: number, id: string): void;
  /** Whether any claim of ours holds the job. */
  holds(id: string): boolean;
  /** A job that was claimed ahead has begun; the store learns it with the next call. */
  begun(epoch: number, id: string): void;
  /** Those whose endings travel with the same call are left out: an ending says as much. */
  takeBegun(ending: readonly { readonly id: string }[]): { id: string; epoch: number }[];
  isTrusted(epoch: number, now: number): boolean;
  readonly size: number;
  readonly all: ReadonlyMap<number, Claim>;
}

export interface Claim {
  readonly ids: Set<string>;
  begun: string[];
  /** From the moment the claim or its extension was asked for: a reply may be slow, the lease is not. */
  trustUntil: number;
}

export function createClaims(): Claims {
  const all = new Map<number, Claim>();
  /** By job, the claim that holds it. */
  const held = new Map<string, number>();
  function forget(epoch: number, id: string): void {
    if (held.get(id) === epoch) held.delete(id);
    const claim = all.get(epoch);
    claim?.ids.delete(id);
    if (claim?.ids.size === 0) all.delete(epoch);
  }
  return {
    all,
    add(epoch, ids, trustUntil) {
      for (const id of ids) {
        const earlier = held.get(id);
        if (earlier !== undefined) forget(earlier, id);
        held.set(id, epoch);
      }
      all.set(epoch, { ids: new Set(ids), begun: [], trustUntil });
    },
    forget,
    holds: (id) => held.has(id),
    begun: (epoch, id) => void all.get(epoch)?.begun.push(id),
    takeBegun(ending) {
      const over = new Set(ending.map(({ id }) => id));
      const begun: { id: string; epoch: number }[] = [];
      for (const [epoch, claim] of all) {
        for (const id of claim.begun.splice(0)) if (!over.has(id)) begun.push({ id, epoch });
      }
      return begun;
    },
    isTrusted: (epoch, now) => now < (all.get(epoch)?.trustUntil ?? 0),
    get size() {
      return all.size;
    },
  };
}
