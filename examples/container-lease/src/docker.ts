import type { Resource } from 'lastout';
import {
  type ContainerSpec,
  type DockerClient as EngineClient,
  type DockerContainer,
  dockerContainers,
  dockerEngine,
  type ListedContainer,
} from 'lastout/docker';
import type { DockerClient } from './domain.js';

/** What is used of dockerode besides what lastout uses. */
export interface EngineApi extends EngineClient {
  getContainer(id: string): DockerContainer & { logs(options: object): Promise<Uint8Array> };
  listContainers(options: object): Promise<readonly (ListedContainer & { readonly State: string })[]>;
  getImage(name: string): { inspect(): Promise<unknown> };
  ping(): Promise<unknown>;
}

export interface Engine extends DockerClient {
  /** What is leased: a container under the name of its lease. */
  readonly containers: Resource<ContainerSpec>;
  /** By id, of all containers of this namespace. */
  states(): Promise<ReadonlyMap<string, string>>;
  /** The last lines that it wrote; null: there is no such container. */
  logs(id: string): Promise<string | null>;
  ping(): Promise<void>;
}

const lines = 200;

export function createEngine(docker: EngineApi, namespace: string): Engine {
  const engine = dockerEngine({ docker });
  return {
    containers: dockerContainers({ docker }),
    async stopContainer(id, signal) {
      await engine.stop(id, signal);
    },
    async removeContainer(id, signal) {
      await engine.remove(id, signal);
    },
    async states() {
      const label = [`lastout.namespace=${namespace}`];
      const found = await docker.listContainers({ all: true, filters: { label } });
      return new Map(found.map(({ Id, State }) => [Id, State]));
    },
    async logs(id) {
      try {
        const bytes = await docker.getContainer(id).logs({ stdout: true, stderr: true, tail: lines, follow: false });
        return withoutFrames(bytes);
      } catch (error) {
        if ((error as { statusCode?: number }).statusCode === 404) return null;
        throw error;
      }
    },
    async ping() {
      await docker.ping();
    },
  };
}

/** The engine sends frames: eight bytes, the last four of which are the length of what follows. */
function withoutFrames(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes);
  const parts: Buffer[] = [];
  for (let at = 0; at + 8 <= buffer.length; ) {
    const length = buffer.readUInt32BE(at + 4);
    parts.push(buffer.subarray(at + 8, at + 8 + length));
    at += 8 + length;
  }
  return Buffer.concat(parts).toString('utf8');
}
