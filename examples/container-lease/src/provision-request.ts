import type { Config } from './config.js';

export interface ProvisionRequest {
  readonly imageType: string;
  readonly durationMinutes: number;
  readonly cpuMilli: number;
  readonly memoryMB: number;
  readonly volumeSizeMB: number;
}

/** What is asked for with the defaults filled in, or what is wrong with it. */
export function readProvisionRequest(body: unknown, config: Config): ProvisionRequest | string {
  if (body === null || typeof body !== 'object' || Array.isArray(body)) return 'The body must be a JSON object';
  const { imageType, durationMinutes, cpuMilli, memoryMB, volumeSizeMB } = body as Record<string, unknown>;
  if (imageType === undefined || imageType === '') return 'imageType is required';
  if (typeof imageType !== 'string' || !config.allowedImages.includes(imageType))
    return `imageType not allowed: use one of ${config.allowedImages.join(', ')}`;
  const { minDurationMinutes: min, maxDurationMinutes: max } = config;
  if (!isWhole(durationMinutes) || durationMinutes < min || durationMinutes > max)
    return `durationMinutes out of bounds: use a whole number from ${min} to ${max}`;
  const limited = {
    cpuMilli: { value: cpuMilli, fallback: config.defaultCpuMilli, least: 1, most: config.maxCpuMilli },
    // An engine gives no container less than 6 MB.
    memoryMB: { value: memoryMB, fallback: config.defaultMemoryMb, least: 6, most: config.maxMemoryMb },
    volumeSizeMB: { value: volumeSizeMB, fallback: 0, least: 0, most: config.maxVolumeMb },
  };
  for (const [name, { value, least, most }] of Object.entries(limited)) {
    if (value === undefined || value === 0) continue; // as if it were not there
    if (!isWhole(value) || value < least) return `${name} must be a whole number, at least ${least}`;
    if (value > most) return `${name} exceeds allowed maximum: ${most}`;
  }
  const of = (name: keyof typeof limited): number => (limited[name].value as number) || limited[name].fallback;
  return {
    imageType,
    durationMinutes,
    cpuMilli: of('cpuMilli'),
    memoryMB: of('memoryMB'),
    volumeSizeMB: of('volumeSizeMB'),
  };
}

const isWhole = (value: unknown): value is number => Number.isSafeInteger(value);

export const presets = [
  { id: 'tiny', name: 'Tiny', cpuMilli: 250, memoryMB: 256, durationMin: 5 },
  { id: 'standard', name: 'Standard', cpuMilli: 500, memoryMB: 512, durationMin: 30 },
  { id: 'large', name: 'Large', cpuMilli: 1_000, memoryMB: 1_024, durationMin: 60 },
] as const;
