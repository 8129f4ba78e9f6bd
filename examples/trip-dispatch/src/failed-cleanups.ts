/** What the library does not see: jobs of a trip that could not be removed, trips that could not be looked up. Of this process. */
export class FailedCleanups {
  private failed = 0;
  private sinceGood = 0;
  private last: Date | null = null;

  constructor(private readonly now: () => Date) {}

  get total(): number {
    return this.failed;
  }

  /** Of those, the ones that no cleanup has gone well after; null: none. */
  get open(): { readonly count: number; readonly last: Date } | null {
    return this.last && this.sinceGood > 0 ? { count: this.sinceGood, last: this.last } : null;
  }

  add(n: number): void {
    this.failed += n;
    this.sinceGood += n;
    this.last = this.now();
  }

  /** A cleanup that began then has gone well, here or in another process. */
  wentWell(began: Date): void {
    if (this.last && began >= this.last) this.sinceGood = 0;
  }
}
