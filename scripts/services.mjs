// `npm run services`: a PostgreSQL, a Redis and a Docker Engine for development, until Ctrl-C. Tests that are run meanwhile use them.
import { announce, keptServices, startServices } from './services/index.mjs';

const kept = keptServices();
if (kept) {
  const urls = [kept.postgres, kept.redis, kept.docker].map((url) => `\n  ${url ?? ''}`);
  console.log(`Already running (process ${kept.pid}):${urls.join('')}`);
  process.exit(0);
}

const services = await startServices();
for (const name of /** @type {const} */ (['postgres', 'redis', 'docker'])) {
  const service = services[name];
  if ('url' in service) console.log(`${name.padEnd(8)}  ${service.url}  (${service.version}, ${service.how})`);
  else console.log(`${name.padEnd(8)}  not there: ${service.why}`);
}
const { postgres, redis, docker } = services;
const withdraw = announce({
  pid: process.pid,
  postgres: 'url' in postgres ? postgres.url : null,
  redis: 'url' in redis ? redis.url : null,
  docker: 'url' in docker ? docker.url : null,
});
console.log('Ctrl-C stops them and removes their data.');

const beat = setInterval(() => undefined, 60_000);
const end = async () => {
  clearInterval(beat);
  withdraw();
  await services.stop();
};
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => void end());
