/** What may be set, under the names of the document where it has them. */
export interface Config {
  /** Milliseconds in which a request must have reached its driver. */
  readonly ttl: number;
  /** So many of the newest completed jobs of each type are kept. */
  readonly removeOnComplete: number;
  /** So many of the newest failed jobs of each type are kept. */
  readonly removeOnFail: number;
  /** When orphaned jobs are looked for. */
  readonly cleanupCron: string;
  /** How many drivers are asked for one trip at the same time. */
  readonly driversAtOnce: number;
  /** How long a driver may take to answer a request that he sees. */
  readonly driverResponseMs: number;
  /** More orphaned jobs than this within ten minutes are an alert. */
  readonly highOrphanCount: number;
}

export const defaultConfig: Config = {
  ttl: 300_000,
  removeOnComplete: 10,
  removeOnFail: 5,
  cleanupCron: '*/2 * * * *',
  driversAtOnce: 2,
  driverResponseMs: 20_000,
  highOrphanCount: 20,
};

type Setting = keyof Config;

/** Of each number: the least and the most. */
const ranges: { readonly [name in Exclude<Setting, 'cleanupCron'>]: readonly [number, number] } = {
  ttl: [1_000, 86_400_000],
  removeOnComplete: [0, 10_000],
  removeOnFail: [0, 10_000],
  driversAtOnce: [1, 100],
  driverResponseMs: [100, 86_400_000],
  highOrphanCount: [0, 1_000_000],
};

const variables: { readonly [name in Setting]: string } = {
  ttl: 'TRIP_TTL',
  removeOnComplete: 'TRIP_REMOVE_ON_COMPLETE',
  removeOnFail: 'TRIP_REMOVE_ON_FAIL',
  cleanupCron: 'TRIP_CLEANUP_CRON',
  driversAtOnce: 'TRIP_DRIVERS_AT_ONCE',
  driverResponseMs: 'TRIP_DRIVER_RESPONSE_MS',
  highOrphanCount: 'TRIP_HIGH_ORPHAN_COUNT',
};

const settings = Object.keys(defaultConfig) as readonly Setting[];

export function readConfig(given: Partial<Config>): Config {
  for (const name of Object.keys(given))
    if (!Object.hasOwn(defaultConfig, name))
      throw new Error(`There is no setting ${name}; there are ${settings.join(', ')}.`);
  const config = { ...defaultConfig, ...given };
  for (const name of settings) check(name, name, config[name], config[name]);
  return config;
}

/** Of the variables of the environment; what is not set there is as in `given`, or as in the document. */
export function configFrom(env: NodeJS.ProcessEnv, given: Partial<Config> = {}): Config {
  const set: { [name in Setting]?: string | number } = {};
  for (const name of settings) {
    const text = env[variables[name]];
    if (text === undefined || text === '') continue;
    set[name] = name !== 'cleanupCron' && /^\d+$/.test(text) ? Number(text) : text;
    check(name, variables[name], set[name], text);
  }
  return readConfig({ ...given, ...(set as Partial<Config>) });
}

/** `called` and `shown`: the setting as whoever gave it knows it. Whether a cron expression is one, the schedule finds out. */
function check(name: Setting, called: string, value: unknown, shown: unknown): void {
  const words = typeof shown === 'string' ? JSON.stringify(shown) : String(shown);
  if (name === 'cleanupCron') {
    if (typeof value !== 'string' || value.trim() === '')
      throw new Error(`${called} is ${words}; give a cron expression.`);
    return;
  }
  const [least, most] = ranges[name];
  if (!Number.isInteger(value) || (value as number) < least || (value as number) > most)
    throw new Error(`${called} is ${words}; give a whole number from ${least} to ${most}.`);
}
