import { setTimeout as delay } from 'node:timers/promises';
import { App } from './app.js';
import type { Config } from './config.js';
import type { EngineApi } from './docker.js';
import type { AppLogger } from './logger.js';

/** Null, or what is to be done before there is anything to show. */
export async function missing(docker: EngineApi, { dockerHost, allowedImages }: Config): Promise<string | null> {
  try {
    await docker.ping();
  } catch (error) {
    return [
      `There is no Docker Engine at ${dockerHost}: ${error instanceof Error ? error.message : String(error)}`,
      '',
      'This example leases real containers. Start an engine (Debian: apt install docker.io) or name one in DOCKER_HOST,',
      'and see that this user may use it. In this repository `npm run services` keeps one up and prints its address.',
    ].join('\n');
  }
  for (const image of allowedImages) if (await hasImage(docker, image)) return null;
  return `The engine at ${dockerHost} has none of the images ${allowedImages.join(', ')}: run "docker pull ${allowedImages[0]}".`;
}

async function hasImage(docker: EngineApi, image: string): Promise<boolean> {
  try {
    await docker.getImage(image).inspect();
    return true;
  } catch {
    return false;
  }
}

/** One container that is deleted by hand, and one that nobody thinks of any more. Rejects after the step in which `told` aborts. */
export async function tour(
  config: Config,
  docker: EngineApi,
  logger: AppLogger,
  tell: (text: string) => void,
  told: AbortSignal,
): Promise<void> {
  const say = (text: string): void => {
    told.throwIfAborted();
    tell(text);
  };
  const images = await Promise.all(config.allowedImages.map((image) => hasImage(docker, image)));
  const imageType = config.allowedImages.find((_, i) => images[i]) ?? '';
  await using app = await App.open({ ...config, cleanupIntervalMs: 1_000 }, logger, { docker });
  const address = await app.start();
  say(`\nA server at ${address}, and beside it a cleanup worker, which here ticks every second.`);

  say(`\nPOST /api/provision { imageType: "${imageType}", durationMinutes: ${config.minDurationMinutes} }`);
  const headers = { 'Content-Type': 'application/json' };
  const body = JSON.stringify({ imageType, durationMinutes: config.minDurationMinutes });
  const answer = await fetch(`${address}/api/provision`, { method: 'POST', headers, body });
  const { id } = (await answer.clone().json()) as { id: string };
  say(`  ${answer.status} ${await answer.text()}`);
  say('GET /api/containers');
  say(`  ${await (await fetch(`${address}/api/containers`)).text()}`);
  say(`DELETE /api/containers/${id.slice(0, 12)}…`);
  say(`  ${(await fetch(`${address}/api/containers/${id}`, { method: 'DELETE' })).status}`);

  say('\nAnother one, for three seconds, and nobody asks for it again:');
  const forgotten = await app.service.provision({
    imageType,
    durationMinutes: 3 / 60,
    cpuMilli: config.defaultCpuMilli,
    memoryMB: config.defaultMemoryMb,
    volumeSizeMB: 0,
  });
  say(`  ${forgotten.id}`);
  const isThere = async (): Promise<boolean> => (await app.engine.states()).size > 0;
  for (let left = 60; left > 0 && (await isThere()); left--) await delay(500, undefined, { signal: told });
  say(`\nWhat the engine still has of ours: ${(await app.engine.states()).size} containers. Good night.`);
}
