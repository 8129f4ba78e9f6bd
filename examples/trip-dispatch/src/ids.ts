/** Ids of trips and drivers are parts of job ids and subjects, so they are short and have no colon. */
const pattern = /^[A-Za-z0-9][A-Za-z0-9_-]{0,47}$/;

export function checkId(id: string, what: string): string {
  if (!pattern.test(id)) throw new Error(`${what} has the id ${JSON.stringify(id)}; it must match ${pattern.source}.`);
  return id;
}
