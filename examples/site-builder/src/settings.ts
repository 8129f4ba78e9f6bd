export type Environment = { readonly [name: string]: string | undefined };

export interface Settings {
  /** Null: a file of its own, which goes when the process ends. */
  readonly store: string | null;
  readonly port: number;
}

/** Reads the environment; an empty variable is an unset one. What is wrong stops the start and is named. */
export function readSettings(env: Environment): Settings {
  const store = env['STORE'] || null;
  if (store !== null && !/^(?:memory:$|sqlite:.)/s.test(store)) throw new Error('STORE must be memory: or sqlite:FILE');
  const port = env['PORT'] || '4600';
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) throw new Error('PORT must be a whole number from 0 to 65535');
  return { store, port: Number(port) };
}
