/**
 * The channel to its parent keeps a process of these tests alive; without a parent it has no business here. Returns how
 * to leave in good order.
 */
export function leaveWithParent(): () => void {
  const orphaned = (): never => process.exit(1);
  process.once('disconnect', orphaned);
  return () => {
    process.off('disconnect', orphaned);
    process.disconnect();
  };
}
