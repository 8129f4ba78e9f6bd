/** The client of a Docker Engine: dockerode 4 or 5, loaded when it is first needed, or what the caller gives. */
import { LastoutError } from '../core/errors.js';

/** What is used of a container of dockerode. */
export interface DockerContainer {
  readonly id: string;
  start(options: object): Promise<unknown>;
  stop(options: object): Promise<unknown>;
  remove(options: object): Promise<unknown>;
  wait(options: object): Promise<unknown>;
  inspect(options: object): Promise<{
    readonly Id: string;
    readonly Config: { readonly Labels?: { readonly [label: string]: string } };
  }>;
}

export interface ListedContainer {
  readonly Id: string;
  readonly Names: readonly string[];
  readonly Created: number;
  readonly Labels: { readonly [label: string]: string };
}

/** What is used of dockerode. */
export interface DockerClient {
  createContainer(options: object): Promise<DockerContainer>;
  getContainer(id: string): DockerContainer;
  listContainers(options: object): Promise<readonly ListedContainer[]>;
}

type Driver = new (options?: object) => DockerClient;

/** Where the driver comes from; tests give their own. */
export interface DriverSource {
  installed(): Promise<unknown>;
}

const source: DriverSource = { installed: () => import('dockerode') };

/** The address is checked at once, the driver is loaded at the first call. */
export function connect(
  given: DockerClient | undefined,
  host: string | undefined,
  from: DriverSource = source,
): () => Promise<DockerClient> {
  if (given) return async () => given;
  const options = host === undefined ? undefined : addressOf(host);
  let client: DockerClient | null = null;
  return async () => (client ??= new (await loadDriver(from))(options));
}

async function loadDriver(from: DriverSource): Promise<Driver> {
  let cause: unknown;
  try {
    const { default: found } = (await from.installed()) as { default?: unknown };
    if (typeof found === 'function') return found as Driver;
  } catch (error) {
    cause = error;
  }
  const message = 'lastout/docker needs dockerode 4 or 5, and it cannot be loaded: run "npm install dockerode".';
  throw new LastoutError('DRIVER_MISSING', message, undefined, cause);
}

/** Every field is named: what DOCKER_HOST of the environment says is left alone otherwise, and would be mixed in. */
function addressOf(host: string): object {
  const none = { socketPath: undefined, host: undefined, port: undefined, protocol: 'http' };
  if (/^unix:\/\/\/./.test(host)) return { ...none, socketPath: host.slice('unix://'.length) };
  if (URL.canParse(host)) {
    const { protocol, hostname, port, username, password } = new URL(host);
    if (hostname !== '' && username === '' && password === '' && ['tcp:', 'http:'].includes(protocol))
      return { ...none, host: hostname, port: Number(port || 2375) };
  }
  // Not repeated: there may be a password in it.
  throw new LastoutError(
    'INVALID_URL',
    'host of a Docker Engine is none that can be used; give unix:///path or tcp://name:port, without a user and a password, or a dockerode client of your own as docker.',
  );
}
