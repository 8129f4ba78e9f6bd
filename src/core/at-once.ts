/** Works on all items, at most `width` at once. When all have ended, the first failure is thrown. */
export async function atOnce<T>(width: number, items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const faults: unknown[] = [];
  let next = 0;
  async function lane(): Promise<void> {
    while (next < items.length) {
      try {
        await work(items[next++]!);
      } catch (error) {
        faults.push(error);
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, lane));
  if (faults.length > 0) throw faults[0];
}
